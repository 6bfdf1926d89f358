// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/convolution/winograd_panels.h"

#ifdef COTAN_WINOGRAD_TARGET
#include <algorithm>

#include "base/rounding.h"
#include "kernels/cpu/threading/parallel.h"

namespace cotan::cpu::winograd {
namespace {

// Channels of the result, or of the input of a weight gradient, that a worker computes at a time, at most; fewer than
// these if there are more threads than such items.
constexpr int64_t kMaxItemChannels = 64;
// Rows of a panel of weights, which stays in the first-level cache for all tiles.
constexpr int64_t kDepth = 64;
constexpr int64_t kTransformGrain = 4;  // tiles of a chunk of a transform

// Returns the channels of an item, a multiple of `unit`.
int64_t ItemChannels(int64_t channels, int64_t unit, int threads) {
  int64_t item = kMaxItemChannels;
  while (item > unit && CeilDiv(channels, item) < threads) item /= 2;
  return std::min(item, RoundUp(channels, unit));
}

class PanelProduct final : public Kernel {
 public:
  PanelProduct(const TileGrid& grid, const Weights& weights, bool has_bias, int threads)
      : grid_(grid),
        weights_(weights),
        has_bias_(has_bias),
        threads_(threads),
        item_channels_(ItemChannels(weights.to_channels, kPanel, threads)),
        inputs_(weights.from_channels, RoundUp(grid.Count(), kTileRows), kLanes),
        panels_(item_channels_, kDepth, kPanel),
        outputs_(item_channels_, inputs_.tiles, kPanel) {
    scratch_bytes_ = static_cast<size_t>(inputs_.Floats() + threads_ * WorkerFloats()) * sizeof(float);
  }

  absl::Status Run(const KernelArgs& args) override {
    const auto* from = static_cast<const float*>(args.inputs[0]);
    auto* const inputs = static_cast<float*>(args.scratch);
    ParallelFor(threads_, grid_.Count(), kTransformGrain, [&](int64_t begin, int64_t end) {
      TileCursor at(grid_, begin);
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
  int64_t WorkerFloats() const { return panels_.Floats() + outputs_.Floats(); }

  // Computes the channels from `first` on.
  void RunItem(const KernelArgs& args, int64_t first, float* scratch) const {
    const auto* weights = static_cast<const float*>(args.inputs[1]);
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
    const auto* bias = has_bias_ ? static_cast<const float*>(args.inputs[2]) + first : nullptr;
    auto* const to = static_cast<float*>(args.outputs[0]) + first;
    TileCursor at(grid_, 0);
    for (int64_t t = 0; t < grid_.Count(); ++t, at.Advance()) {
      OutputTile(products, outputs_, t, at.OutputPixels(), channels, bias, to);
    }
  }

  // Adds the products of `rows` channels of the input to those of `channels` of the result.
  void Multiply(const float* inputs, int64_t channels, int64_t row, int64_t rows, const float* panels,
                float* products) const {
    for (int64_t e = 0; e < kElements; ++e) {
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
  Transformed inputs_;   // of all tiles
  Transformed panels_;   // weights between some channels
  Transformed outputs_;  // of all tiles, for the channels of an item
};

// E is the type of all operands, float or BFloat16.
template <typename E>
class PanelWeightGradient final : public Kernel {
 public:
  PanelWeightGradient(const TileGrid& grid, const Weights& weights, int threads)
      : grid_(grid),
        weights_(weights),
        threads_(threads),
        item_channels_(ItemChannels(weights.from_channels, kLanes, threads)),
        inputs_(weights.from_channels, grid.Count(), kLanes),
        gradients_(weights.to_channels, grid.Count(), kPanel),
        panels_(kPanel, item_channels_, kPanel) {
    const int64_t floats = inputs_.Floats() + gradients_.Floats() + threads_ * panels_.Floats();
    scratch_bytes_ = static_cast<size_t>(floats) * sizeof(float);
  }

  absl::Status Run(const KernelArgs& args) override {
    const auto* source = static_cast<const E*>(args.inputs[0]);
    const auto* destination = static_cast<const E*>(args.inputs[1]);
    auto* const inputs = static_cast<float*>(args.scratch);
    float* const gradients = inputs + inputs_.Floats();
    ParallelFor(threads_, grid_.Count(), kTransformGrain, [&](int64_t begin, int64_t end) {
      TileCursor at(grid_, begin);
      for (int64_t t = begin; t < end; ++t, at.Advance()) {
        InputTile(source, grid_.input.channels, at.InputPixels(), inputs_, inputs + t * kLanes);
        GradientTile(destination, grid_.output.channels, at.OutputPixels(), gradients_, t, gradients);
      }
    });
    const int64_t items = CeilDiv(weights_.from_channels, item_channels_);
    ParallelForWorker(threads_, items, 1, [&](int worker, int64_t begin, int64_t end) {
      float* const panels = gradients + gradients_.Floats() + worker * panels_.Floats();
      for (int64_t item = begin; item < end; ++item) {
        RunItem(inputs, gradients, item * item_channels_, panels, static_cast<E*>(args.outputs[0]));
      }
    });
    return absl::OkStatus();
  }

 private:
  // Computes the gradients of the weights from the channels from `first` on.
  void RunItem(const float* inputs, const float* gradients, int64_t first, float* panels, E* weights) const {
    const int64_t rows = std::min(item_channels_, weights_.from_channels - first);
    for (int64_t c = 0; c < weights_.to_channels; c += kPanel) {
      for (int64_t e = 0; e < kElements; ++e) {
        for (int64_t row = 0; row < rows; row += kLanes) {
          AddProducts(inputs + e * inputs_.ElementFloats() + inputs_.Offset(0, first + row),
                      gradients + e * gradients_.ElementFloats() + gradients_.Offset(0, c), grid_.Count(),
                      weights_.to_channels - c, /*adds=*/false,
                      panels + e * panels_.ElementFloats() + panels_.Offset(row, 0));
        }
      }
      const int64_t columns = std::min(kPanel, weights_.to_channels - c);
      ForEachKernels(weights_, first, rows, c, columns, [&](int64_t from, int64_t to) {
        WeightGradients(panels + panels_.Offset(from - first, to - c), panels_.ElementFloats(), weights_, from, to,
                        weights);
      });
    }
  }

  TileGrid grid_;
  Weights weights_;
  int threads_;
  int64_t item_channels_;
  Transformed inputs_;     // of all tiles
  Transformed gradients_;  // of all tiles
  Transformed panels_;     // sums between some channels
};

}  // namespace

std::unique_ptr<Kernel> MakePanelProduct(const TileGrid& grid, const Weights& weights, bool has_bias, int threads) {
  return std::make_unique<PanelProduct>(grid, weights, has_bias, threads);
}

std::unique_ptr<Kernel> MakePanelWeightGradient(const TileGrid& grid, const Weights& weights, DType dtype,
                                                int threads) {
  if (dtype == DType::kBFloat16) return std::make_unique<PanelWeightGradient<BFloat16>>(grid, weights, threads);
  return std::make_unique<PanelWeightGradient<float>>(grid, weights, threads);
}

}  // namespace cotan::cpu::winograd

#endif
