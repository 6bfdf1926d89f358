// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/recurrent/layer.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/copy/kernel_text.h"

namespace cotan::cuda::recurrent {
namespace {

using serialization::Recurrent;

constexpr int64_t kMostThreads = 512;
constexpr int64_t kMostEntries = 8;
constexpr int64_t kMostSlices = 16;
// Steps of a sum that are not divided further.
constexpr int64_t kSliceDepth = 8;
// A block reads the weights in each step, as fast as it can. With more blocks than this, the L2 cache is the limit if
// it has the weights; weights in shared memory have no such limit.
constexpr int64_t kCacheBlocks = 32;
constexpr int64_t kSharedBlocks = 128;

int64_t PowerOfTwo(int64_t at_least) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(1, at_least))));
}

// Sets the threads, slices and values for `entries` entries per block.
void Share(int64_t entries, bool is_backward, int64_t shared_bytes, Layer& layer) {
  layer.entries = entries;
  const int64_t groups = layer.padded / layer.vector;
  const int64_t most_slices = std::min(kMostSlices, PowerOfTwo(layer.depth / kSliceDepth + 1) / 2);
  const int64_t work = std::max(groups * std::max<int64_t>(1, most_slices), layer.hidden * entries);
  layer.threads = std::clamp<int64_t>(PowerOfTwo(work), 32, kMostThreads);
  layer.slices = 1;
  while (layer.slices * 2 <= most_slices && groups * layer.slices * 2 <= layer.threads) layer.slices *= 2;
  const bool has_cell = layer.cell == Recurrent::LSTM, is_gru = layer.cell == Recurrent::GRU;
  const int64_t states = is_backward ? (has_cell || is_gru ? 1 : 0) : (has_cell ? 2 : 1);
  const int64_t factors = is_backward ? layer.depth : 0;
  // A multiple of 16 bytes.
  const auto words = [&] {
    const int64_t count = (states * layer.hidden + factors + layer.slices * layer.padded) * entries;
    return CeilDiv(count, 4) * 4;
  };
  while (layer.slices > 1 && words() * layer.compute_bytes() > shared_bytes) layer.slices /= 2;
  layer.words = words();
  layer.in_shared = layer.words * layer.compute_bytes() <= shared_bytes;
  layer.weights_in_shared =
      layer.in_shared && layer.words * layer.compute_bytes() + layer.weight_bytes() <= shared_bytes;
}

int64_t EntriesFor(int64_t batch, int64_t blocks) { return std::min(kMostEntries, PowerOfTwo(CeilDiv(batch, blocks))); }

absl::string_view Boolean(bool value) { return value ? "true" : "false"; }

}  // namespace

int64_t Layer::gates() const { return cell == Recurrent::LSTM ? 4 : cell == Recurrent::GRU ? 3 : 1; }

int64_t Layer::weight_bytes() const { return depth * padded * static_cast<int64_t>(ByteSize(dtype)); }

int64_t Layer::shared_bytes() const {
  return (in_shared ? words * compute_bytes() : 0) + (weights_in_shared ? weight_bytes() : 0);
}

int64_t Layer::values_offset() const { return CeilDiv(weight_bytes(), 64) * 64; }

int64_t Layer::scratch_bytes() const { return values_offset() + (in_shared ? 0 : blocks() * words * compute_bytes()); }

std::string Layer::Text() const {
  std::string text = absl::StrCat("  using Element = ", ElementTypeName(dtype), ";\n  using Product = cotan::recurrent",
                                  "::ProductGeometry<", depth, ", ", outputs, ", ", padded, ", ", slices, ", ", vector,
                                  ">;\n  using Memory = cotan::recurrent::MemoryGeometry<", Boolean(in_shared), ", ",
                                  Boolean(weights_in_shared), ", ", words, ">;\n");
  const auto constant = [&](absl::string_view type, absl::string_view name, int64_t value) {
    absl::StrAppend(&text, "  static constexpr ", type, " ", name, " = ", value, ";\n");
  };
  constant("int", "kCell",
           cell == Recurrent::LSTM       ? 3
           : cell == Recurrent::GRU      ? 4
           : cell == Recurrent::RNN_RELU ? 2
                                         : 1);
  constant("long long", "kSteps", steps);
  constant("long long", "kBatch", batch);
  constant("int", "kHidden", hidden);
  constant("bool", "kReverse", reverse ? 1 : 0);
  constant("int", "kEntries", entries);
  constant("int", "kThreads", threads);
  return text;
}

Layer LayerOf(const Recurrent& op, const TensorSpec& sequence, bool is_backward, int64_t shared_bytes) {
  Layer layer;
  layer.cell = op.cell();
  layer.dtype = sequence.dtype;
  layer.steps = sequence.layout.sizes[0];
  layer.batch = sequence.layout.sizes[1];
  layer.hidden = sequence.layout.sizes[2];
  layer.reverse = op.reverse();
  const int64_t products = layer.gates() * layer.hidden;
  layer.depth = is_backward ? products : layer.hidden;
  layer.outputs = is_backward ? layer.hidden : products;
  layer.vector = 16 / static_cast<int64_t>(ByteSize(layer.dtype));
  layer.padded = CeilDiv(layer.outputs, layer.vector) * layer.vector;
  Share(EntriesFor(layer.batch, kSharedBlocks), is_backward, shared_bytes, layer);
  if (layer.weights_in_shared) return layer;
  Share(EntriesFor(layer.batch, kCacheBlocks), is_backward, shared_bytes, layer);
  while (!layer.in_shared && layer.entries > 1) Share(layer.entries / 2, is_backward, shared_bytes, layer);
  return layer;
}

std::string SequenceText(absl::string_view name, const TensorSpec* spec) {
  int64_t strides[3] = {0, 0, 0};
  if (spec != nullptr) {
    const DimVector& from = spec->layout.strides;
    std::copy(from.begin(), from.end(), strides + 3 - from.size());
  }
  return absl::StrCat("  using ", name, " = cotan::recurrent::Sequence<", strides[0], ", ", strides[1], ", ",
                      strides[2], ">;\n");
}

}  // namespace cotan::cuda::recurrent
