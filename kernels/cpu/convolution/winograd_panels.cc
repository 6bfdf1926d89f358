// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/convolution/winograd_panels.h"

#ifdef COTAN_WINOGRAD_TARGET
#include <algorithm>

#include "base/rounding.h"
#include "kernels/cpu/threading/parallel.h"

namespace cotan::cpu::winograd {
namespace {

// Channels of the result of a product that a worker computes at a time, at most. More of many, whose weights are far
// apart in memory.
constexpr int64_t kItemChannels = 32;
constexpr int64_t kItemOfManyChannels = 64;
constexpr int64_t kManyChannels = 256;
// Channels of the input of a weight gradient that a worker computes at a time, at most.
constexpr int64_t kGradientItemChannels = 32;
// Rows of a panel of weights, which stays in the first-level cache for all tiles.
constexpr int64_t kDepth = 64;
constexpr int64_t kTransformGrain = 4;  // tiles of a chunk of a transform

// Returns the channels of an item of a product.
int64_t ItemChannels(int64_t channels, int threads) {
  const bool splits = CeilDiv(channels, kItemOfManyChannels) < threads;
  return channels > kManyChannels && !splits ? kItemOfManyChannels : kItemChannels;
}

// Returns the channels of an item of a weight gradient: fewer if there are more threads than items.
int64_t GradientItemChannels(int64_t channels, int threads) {
  return CeilDiv(channels, kGradientItemChannels) < threads ? kLanes : kGradientItemChannels;
}

// E is the type of all operands, float or BFloat16.
template <typename E>
class PanelProduct final : public Kernel {
 public:
  PanelProduct(const TileGrid& grid, const Weights& weights, bool has_bias, int threads)
      : grid_(grid),
        weights_(weights),
        has_bias_(has_bias),
        threads_(threads),
        item_channels_(ItemChannels(weights.to_channels, threads)),
        inputs_(weights.from_channels, RoundUp(grid.Count(), kTileRows), kLanes),
        panels_(item_channels_, kDepth, kPanel),
        outputs_(item_channels_, inputs_.tiles, kPanel) {
    scratch_bytes_ = static_cast<size_t>(inputs_.Floats() + threads_ * WorkerFloats()) * sizeof(float);
  }

  absl::Status Run(const KernelArgs& args) override {
    const auto* from = static_cast<const E*>(args.inputs[0]);
    auto* const inputs = static_cast<float*>(args.scratch);
    ParallelFor(threads_, grid_.Count(), kTransformGrain, [&](int64_t begin, int64_t end) {
      TileCursor<Side> at(grid_, begin);
      for (int64_t t = begin; t < end; ++t, at.Advance()) {
        InputTile(from, grid_.input.channels, at.InputPixels(), inputs_, inputs + t * kLanes);
      }
    });
    const int64_t items = CeilDiv(weights_.to_channels, item_channels_);
    ParallelForWorker(threads_, items, 1, [&](int worker, int64_t begin, int64_t end) {
      float* const scratch = inputs + inputs_.Floats() + worker * WorkerFloats();
      for (int64_t item = begin; item < end; ++item) RunItem(args, item * item_channels_, scratch);
    });
    return absl::OkStatus();
  }

 private:
  using Side = SideOf<E>;

  int64_t WorkerFloats() const { return panels_.Floats() + outputs_.Floats(); }

  // Computes the channels from `first` on.
  void RunItem(const KernelArgs& args, int64_t first, float* scratch) const {
    const auto* weights = static_cast<const E*>(args.inputs[1]);
    float* const products = scratch + panels_.Floats();
    const int64_t channels = std::min(item_channels_, weights_.to_channels - first);
    for (int64_t row = 0; row < weights_.from_channels; row += kDepth) {
      const int64_t rows = std::min(kDepth, RoundUp(weights_.from_channels, kLanes) - row);
      ForEachKernels(weights_, row, rows, first, channels, [&](int64_t from, int64_t to) {
        WeightElements(weights, weights_, from, to, panels_.ElementFloats(),
                       scratch + panels_.Offset(from - row, to - first));
      });
      Multiply(static_cast<const float*>(args.scratch), channels, row, rows, scratch, products);
    }
    const auto* bias = has_bias_ ? static_cast<const E*>(args.inputs[2]) + first : nullptr;
    auto* const to = static_cast<E*>(args.outputs[0]) + first;
    TileCursor<Side> at(grid_, 0);
    for (int64_t t = 0; t < grid_.Count(); ++t, at.Advance()) {
      OutputTile(products, outputs_, t, at.OutputPixels(), channels, bias, to);
    }
  }

  // Adds the products of `rows` channels of the input to those of `channels` of the result.
  void Multiply(const float* inputs, int64_t channels, int64_t row, int64_t rows, const float* panels,
                float* products) const {
    for (int64_t e = 0; e < Transformed<Side>::kElements; ++e) {
      const LeftBlocks left = {inputs + e * inputs_.ElementFloats() + inputs_.Offset(0, row), inputs_.GroupFloats(),
                               rows / kLanes, kLanes};
      for (int64_t c = 0; c < channels; c += kPanel) {
        MultiplyTiles(left, grid_.Count(), panels + e * panels_.ElementFloats() + panels_.Offset(0, c), channels - c,
                      /*adds=*/row > 0, products + e * outputs_.ElementFloats() + outputs_.Offset(0, c));
      }
    }
  }

  TileGrid grid_;
  Weights weights_;
  bool has_bias_;
  int threads_;
  int64_t item_channels_;
  Transformed<Side> inputs_;   // of all tiles
  Transformed<Side> panels_;   // weights between some channels
  Transformed<Side> outputs_;  // of all tiles, for the channels of an item
};

template <typename E>
class PanelWeightGradient final : public Kernel {
 public:
  PanelWeightGradient(const TileGrid& grid, const Weights& weights, int threads)
      : grid_(grid),
        weights_(weights),
        threads_(threads),
        item_channels_(GradientItemChannels(weights.from_channels, threads)),
        gradients_(weights.to_channels, grid.Count(), kPanel),
        inputs_(item_channels_, grid.Count(), kLanes),
        panels_(kPanel, item_channels_, kPanel) {
    scratch_bytes_ = static_cast<size_t>(gradients_.Floats() + threads_ * WorkerFloats()) * sizeof(float);
  }

  absl::Status Run(const KernelArgs& args) override {
    const auto* destination = static_cast<const E*>(args.inputs[1]);
    auto* const gradients = static_cast<float*>(args.scratch);
    ParallelFor(threads_, grid_.Count(), kTransformGrain, [&](int64_t begin, int64_t end) {
      TileCursor<Side> at(grid_, begin);
      for (int64_t t = begin; t < end; ++t, at.Advance()) {
        GradientTile(destination, grid_.output.channels, at.OutputPixels(), gradients_, t, gradients);
      }
    });
    const int64_t items = CeilDiv(weights_.from_channels, item_channels_);
    ParallelForWorker(threads_, items, 1, [&](int worker, int64_t begin, int64_t end) {
      float* const scratch = gradients + gradients_.Floats() + worker * WorkerFloats();
      for (int64_t item = begin; item < end; ++item) RunItem(args, item * item_channels_, scratch);
    });
    return absl::OkStatus();
  }

 private:
  using Side = SideOf<E>;

  int64_t WorkerFloats() const { return inputs_.Floats() + panels_.Floats(); }

  // Computes the gradients of the weights from the channels from `first` on.
  void RunItem(const KernelArgs& args, int64_t first, float* scratch) const {
    const int64_t rows = std::min(item_channels_, weights_.from_channels - first);
    const E* const source = static_cast<const E*>(args.inputs[0]) + first;
    TileCursor<Side> at(grid_, 0);
    for (int64_t t = 0; t < grid_.Count(); ++t, at.Advance()) {
      InputTile(source, rows, at.InputPixels(), inputs_, scratch + t * kLanes);
    }
    for (int64_t c = 0; c < weights_.to_channels; c += kPanel) {
      RunPanel(args, first, rows, c, scratch, scratch + inputs_.Floats());
    }
  }

  // Computes those of kPanel channels of the output from `to` on.
  void RunPanel(const KernelArgs& args, int64_t first, int64_t rows, int64_t to, const float* inputs,
                float* panels) const {
    const auto* gradients = static_cast<const float*>(args.scratch);
    for (int64_t e = 0; e < Transformed<Side>::kElements; ++e) {
      for (int64_t row = 0; row < rows; row += kLanes) {
        AddProducts(inputs + e * inputs_.ElementFloats() + inputs_.Offset(0, row),
                    gradients + e * gradients_.ElementFloats() + gradients_.Offset(0, to), grid_.Count(),
                    weights_.to_channels - to, /*adds=*/false,
                    panels + e * panels_.ElementFloats() + panels_.Offset(row, 0));
      }
    }
    const int64_t columns = std::min(kPanel, weights_.to_channels - to);
    ForEachKernels(weights_, first, rows, to, columns, [&](int64_t from, int64_t channel) {
      WeightGradients(panels + panels_.Offset(from - first, channel - to), panels_.ElementFloats(), weights_, from,
                      channel, static_cast<E*>(args.outputs[0]));
    });
  }

  TileGrid grid_;
  Weights weights_;
  int threads_;
  int64_t item_channels_;
  Transformed<Side> gradients_;  // of all tiles
  Transformed<Side> inputs_;     // of all tiles, for the channels of an item
  Transformed<Side> panels_;     // sums between some channels
};

}  // namespace

std::unique_ptr<Kernel> MakePanelProduct(const TileGrid& grid, const Weights& weights, bool has_bias, DType dtype,
                                         int threads) {
  if (dtype == DType::kBFloat16) return std::make_unique<PanelProduct<BFloat16>>(grid, weights, has_bias, threads);
  return std::make_unique<PanelProduct<float>>(grid, weights, has_bias, threads);
}

std::unique_ptr<Kernel> MakePanelWeightGradient(const TileGrid& grid, const Weights& weights, DType dtype,
                                                int threads) {
  if (dtype == DType::kBFloat16) return std::make_unique<PanelWeightGradient<BFloat16>>(grid, weights, threads);
  return std::make_unique<PanelWeightGradient<float>>(grid, weights, threads);
}

}  // namespace cotan::cpu::winograd

#endif
