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
// Blocks that keep their weights have one entry each as long as the processors of a GPU suffice. Blocks that read them
// in each step wait for the L2 cache if they are more than some.
constexpr int64_t kPersistentBlocks = 128;
constexpr int64_t kCacheBlocks = 32;
constexpr int64_t kMostPersistentEntries = 4;

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
}

int64_t EntriesFor(int64_t batch, int64_t blocks) { return std::min(kMostEntries, PowerOfTwo(CeilDiv(batch, blocks))); }

absl::string_view Boolean(bool value) { return value ? "true" : "false"; }

// Sets the layout of persistent weights, if they fit.
void KeepWeights(int64_t shared_bytes, Layer& layer) {
  PersistentSizes sizes = {layer.dtype, layer.hidden, layer.depth, layer.unit_rows};
  sizes.entries = std::min(kMostPersistentEntries, EntriesFor(layer.batch, kPersistentBlocks));
  for (; sizes.entries > 0 && !layer.persistent.has_value(); sizes.entries /= 2) {
    layer.persistent = PersistentFor(sizes, shared_bytes);
    layer.entries = sizes.entries;
  }
  if (layer.persistent.has_value()) layer.threads = layer.persistent->threads;
}

// Returns the types of products and memory as source text.
std::string GeometryText(const Layer& layer) {
  if (layer.persistent.has_value()) {
    const Persistent& p = *layer.persistent;
    return absl::StrCat("  using Product = cotan::recurrent::PersistentGeometry<", layer.depth, ", ", layer.unit_rows,
                        ", ", p.units, ", ", p.lanes, ", ", p.registers, ", ", p.early, ">;\n");
  }
  return absl::StrCat("  using Product = cotan::recurrent::ProductGeometry<", layer.depth, ", ", layer.outputs, ", ",
                      layer.padded, ", ", layer.slices, ", ", layer.vector,
                      ">;\n  using Memory = cotan::recurrent::MemoryGeometry<", Boolean(layer.in_shared), ", ",
                      layer.words, ">;\n");
}

}  // namespace

int64_t Layer::gates() const { return cell == Recurrent::LSTM ? 4 : cell == Recurrent::GRU ? 3 : 1; }

int64_t Layer::weight_bytes() const { return depth * padded * static_cast<int64_t>(ByteSize(dtype)); }

int64_t Layer::shared_bytes() const {
  if (persistent.has_value()) return persistent->shared_bytes;
  return in_shared ? words * compute_bytes() : 0;
}

int64_t Layer::values_offset() const { return CeilDiv(weight_bytes(), 64) * 64; }

int64_t Layer::scratch_bytes() const {
  if (persistent.has_value()) return 0;
  return values_offset() + (in_shared ? 0 : blocks() * words * compute_bytes());
}

std::string Layer::Text() const {
  std::string text = absl::StrCat("  using Element = ", ElementTypeName(dtype), ";\n", GeometryText(*this));
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
  layer.unit_rows = is_backward ? 1 : layer.gates();
  KeepWeights(shared_bytes, layer);
  if (layer.persistent.has_value()) return layer;
  layer.vector = 16 / static_cast<int64_t>(ByteSize(layer.dtype));
  layer.padded = CeilDiv(layer.outputs, layer.vector) * layer.vector;
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
