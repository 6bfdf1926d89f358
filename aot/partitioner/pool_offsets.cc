// SPDX-License-Identifier: Apache-2.0

#include "aot/partitioner/pool_offsets.h"

#include <cstdint>
#include <functional>
#include <iterator>
#include <numeric>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "aot/ir/builder.h"
#include "aot/ir/prim_node.h"
#include "aot/transforms/pool_index_dtype.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

// The windows of a pool over the last dimensions.
struct Windows {
  std::vector<int64_t> kernel, stride, padding, dilation;
  std::vector<SymInt> input;  // sizes of these dimensions
};

Windows WindowsOf(const Graph& joint, const Node& backward) {
  Windows windows{IntListAttribute(backward, "kernel"),
                  IntListAttribute(backward, "stride"),
                  IntListAttribute(backward, "padding"),
                  IntListAttribute(backward, "dilation"),
                  {}};
  const SymIntVector& sizes = joint.value(backward.outputs[0]).type.sizes;
  windows.input.assign(sizes.end() - static_cast<std::ptrdiff_t>(windows.kernel.size()), sizes.end());
  return windows;
}

bool FitsIntoByte(const Windows& windows) {
  const size_t rank = windows.kernel.size();
  return windows.stride.size() == rank && windows.padding.size() == rank && windows.dilation.size() == rank &&
         std::accumulate(windows.kernel.begin(), windows.kernel.end(), int64_t{1}, std::multiplies<>()) <= 256;
}

Tensor Number(Builder& b, int64_t number) { return b.Literal(SymInt(number)); }

Tensor FloorDiv(Builder& b, const Tensor& a, const Tensor& divisor) {
  return b.Binary(serialization::FN_FLOOR_DIV, a, divisor);
}

// Returns the first coordinate of each window along spatial dimension d; it may be in the padding.
Tensor WindowStart(Builder& b, const Windows& windows, size_t d, const SymIntVector& sizes) {
  const size_t dim = sizes.size() - windows.kernel.size() + d;
  const Tensor position = b.Iota(static_cast<int>(dim), DType::kInt64, sizes);
  return position * Number(b, windows.stride[d]) - Number(b, windows.padding[d]);
}

// Returns the position in its window, u8, of each flat index into the spatial dimensions.
Tensor OffsetsOf(Builder& b, const Windows& windows, const Tensor& indices) {
  Tensor rest = indices;
  Tensor offset;
  int64_t scale = 1;
  for (size_t d = windows.kernel.size(); d-- > 0;) {
    const Tensor size = b.Literal(windows.input[d]);
    const Tensor outer = FloorDiv(b, rest, size);
    const Tensor coordinate = d == 0 ? rest : rest - outer * size;
    rest = outer;
    const Tensor from_start = coordinate - WindowStart(b, windows, d, indices.sizes());
    const Tensor step = FloorDiv(b, from_start, Number(b, windows.dilation[d])) * Number(b, scale);
    offset = offset.defined() ? offset + step : step;
    scale *= windows.kernel[d];
  }
  return b.Cast(offset, DType::kUInt8);
}

// Reverses OffsetsOf(); the indices are i32 where that holds them.
Tensor IndicesOf(Builder& b, const Windows& windows, const Tensor& offsets) {
  Tensor rest = b.Cast(offsets, DType::kInt64);
  Tensor indices;
  SymInt scale(1);
  for (size_t d = windows.kernel.size(); d-- > 0;) {
    const Tensor kernel = Number(b, windows.kernel[d]);
    const Tensor outer = FloorDiv(b, rest, kernel);
    const Tensor step = d == 0 ? rest : rest - outer * kernel;
    rest = outer;
    const Tensor coordinate = WindowStart(b, windows, d, offsets.sizes()) + step * Number(b, windows.dilation[d]);
    const Tensor term = coordinate * b.Literal(scale);
    indices = indices.defined() ? indices + term : term;
    scale = scale * windows.input[d];
  }
  return FitsIntoInt32(windows.input) ? b.Cast(indices, DType::kInt32) : indices;
}

}  // namespace

absl::Status NarrowPoolIndices(Graph& joint) {
  absl::flat_hash_set<ValueId> pooled;  // indices that a pool computes
  for (auto node = joint.nodes().begin(); node != joint.nodes().end(); ++node) {
    if (IsPrim(*node, PrimOp::kMaxPool)) pooled.insert(node->outputs[1]);
    if (!IsPrim(*node, PrimOp::kMaxPoolBackward) || !pooled.contains(OperandOf(*node, "indices"))) continue;
    const Windows windows = WindowsOf(joint, *node);
    if (!FitsIntoByte(windows)) continue;
    const auto last = std::prev(joint.nodes().end());
    Builder b(&joint);
    b.set_source(node->source);
    const Tensor indices = IndicesOf(b, windows, OffsetsOf(b, windows, b.Value(OperandOf(*node, "indices"))));
    COTAN_RETURN_IF_ERROR(b.status());
    node->arguments[ArgumentIndex(*node, "indices")] = Use{indices.id()};
    joint.nodes().splice(node, joint.nodes(), std::next(last), joint.nodes().end());
  }
  return absl::OkStatus();
}

}  // namespace cotan::aot
