// SPDX-License-Identifier: Apache-2.0

#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/api/index_range.h"
#include "kernels/api/op_check.h"
#include "kernels/reference/function_kernel.h"
#include "kernels/reference/ops.h"

namespace cotan::reference {
namespace {

using serialization::Op;

// Calls fn(gathered index, table index, raw index value) for every element of a gathered tensor.
// InvalidArgument: an index out of range; elements before it are visited.
template <typename Fn>
absl::Status ForEachGathered(const Tensor& gathered, const Tensor& table, const Tensor& index, int64_t dim, Fn fn) {
  const int64_t size = table.size(static_cast<int>(dim));
  const auto index_rank = static_cast<size_t>(index.rank());
  absl::Status status;
  ForEachIndex(gathered.sizes(), [&](absl::Span<const int64_t> at) {
    const int64_t value = index.Get(at.subspan(static_cast<size_t>(dim), index_rank)).i;
    if (value < -size || value >= size) {
      status = absl::InvalidArgumentError(absl::StrCat("index ", value, " is out of range for ", size, " elements"));
      return;
    }
    DimVector position(at.begin(), at.begin() + dim);
    position.push_back(value < 0 ? value + size : value);
    position.insert(position.end(), at.begin() + dim + static_cast<int64_t>(index_rank), at.end());
    fn(at, position, value);
  });
  return status;
}

absl::Status RunGather(const Op& op, const Tensors& in, const Tensors& out) {
  return ForEachGathered(
      out[0], in[0], in[1], op.gather().dim(),
      [&](absl::Span<const int64_t> at, const DimVector& position, int64_t) { out[0].Set(at, in[0].Get(position)); });
}

absl::Status RunScatterAdd(const Op& op, const Tensors& in, const Tensors& out) {
  Accumulator result(out[0]);
  if (in.size() > 2) {
    ForEachIndex(out[0].sizes(), [&](absl::Span<const int64_t> index) { result.At(index) = in[2].Get(index); });
  }
  const int64_t skipped = op.scatter_add().padding_index();
  const absl::Status status =
      ForEachGathered(in[0], out[0], in[1], op.scatter_add().dim(),
                      [&](absl::Span<const int64_t> at, const DimVector& position, int64_t value) {
                        if (value == skipped && skipped != -1) return;
                        result.Add(position, in[0].Get(at));
                      });
  result.Write();
  return status;
}

// Not a FunctionKernel, because the range may depend on symbols.
class CheckedIndexKernel final : public Kernel {
 public:
  CheckedIndexKernel(const KernelRequest& request, IndexRange range)
      : range_(range), input_(request.inputs[0]), output_(request.outputs[0]) {}

  absl::Status Run(const KernelArgs& args) override {
    const Tensor from = {input_.dtype, input_.layout, args.inputs[0]};
    const Tensor to = {output_.dtype, output_.layout, args.outputs[0]};
    absl::Status status;
    int64_t position = 0;
    ForEachIndex(from.sizes(), [&](absl::Span<const int64_t> at) {
      const int64_t value = from.Get(at).i;
      if (status.ok() && !range_.Allows(value)) {
        status = range_.OutOfRangeError(Op::kCheckedIndex, from.sizes(), position, value);
      }
      to.Set(at, {0, range_.Resolve(value)});
      ++position;
    });
    return status;
  }

 private:
  const IndexRange range_;
  const TensorSpec input_;
  const TensorSpec output_;
};

absl::Status RunConcat(const Op& op, const Tensors& in, const Tensors& out) {
  const auto dim = static_cast<size_t>(op.concat().dim());
  int64_t start = 0;
  for (const Tensor& input : in) {
    ForEachIndex(input.sizes(), [&](absl::Span<const int64_t> index) {
      DimVector to(index.begin(), index.end());
      to[dim] += start;
      out[0].Set(to, input.Get(index));
    });
    start += input.sizes()[dim];
  }
  return absl::OkStatus();
}

absl::Status RunCopy(const Op& /*op*/, const Tensors& in, const Tensors& out) {
  ForEachIndex(in[0].sizes(), [&](absl::Span<const int64_t> index) { out[0].Set(index, in[0].Get(index)); });
  return absl::OkStatus();
}

}  // namespace

KernelOr MakeGather(const KernelRequest& request) { return MakeFunctionKernel(request, RunGather); }
KernelOr MakeScatterAdd(const KernelRequest& request) { return MakeFunctionKernel(request, RunScatterAdd); }
KernelOr MakeCheckedIndex(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  COTAN_ASSIGN_OR_RETURN(const IndexRange range, IndexRange::Of(request));
  return std::make_unique<CheckedIndexKernel>(request, range);
}

KernelOr MakeConcat(const KernelRequest& request) { return MakeFunctionKernel(request, RunConcat); }
KernelOr MakeCopy(const KernelRequest& request) { return MakeFunctionKernel(request, RunCopy); }

}  // namespace cotan::reference
