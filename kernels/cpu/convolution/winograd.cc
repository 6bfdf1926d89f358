// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/convolution/winograd.h"

#include <algorithm>

#include "base/rounding.h"
#include "kernels/cpu/convolution/winograd_panels.h"
#include "kernels/cpu/convolution/winograd_transforms.h"
#include "kernels/cpu/threading/parallel.h"

namespace cotan::cpu {

#ifdef COTAN_WINOGRAD_TARGET
namespace winograd {
namespace {

constexpr int64_t kMinChannels = 16;
constexpr int64_t kMinChannelsOfHalves = 32;    // of products in bf16
constexpr int64_t kMinWeightGradientTiles = 4;  // fewer were not measured
// Output pixels in each tile of 4 x 4, on average.
constexpr int64_t kMinPixelsOfHalves = 12;
constexpr int64_t kMinPixelsOfHalfGradients = 6;
// Transformed floats of a block of tiles, which stay in the second-level cache; a weight gradient reads its sums again
// for each block. A block of few tiles would read the weights or sums too often.
constexpr int64_t kBlockFloats = 64 * 1024;
constexpr int64_t kGradientFloats = 192 * 1024;
constexpr int64_t kMinBlockTiles = 32;
constexpr int64_t kMinGradientTiles = 64;
constexpr int64_t kTransformGrain = 16;  // tiles of a chunk of a transform

// kForward or kBackwardData. The transformed weights are shared, the tiles of a block are a worker's own. E is the type
// of all operands, float or BFloat16.
template <typename E>
class WinogradProduct final : public Kernel {
 public:
  WinogradProduct(const TileGrid& grid, const Weights& weights, bool has_bias, int threads)
      : grid_(grid),
        weights_(weights),
        has_bias_(has_bias),
        threads_(threads),
        block_tiles_(BlockTiles(grid)),
        panels_(weights.to_channels, RoundUp(weights.from_channels, kLanes), kPanel),
        inputs_(weights.from_channels, block_tiles_, kLanes),
        outputs_(weights.to_channels, block_tiles_, kPanel) {
    const int64_t floats = panels_.Floats() + threads_ * WorkerFloats();
    scratch_bytes_ = static_cast<size_t>(floats) * sizeof(float);
  }

  absl::Status Run(const KernelArgs& args) override {
    const auto* weights = static_cast<const E*>(args.inputs[1]);
    auto* const panels = static_cast<float*>(args.scratch);
    ParallelFor(threads_, panels_.tiles, kLanes, [&](int64_t begin, int64_t end) {
      ForEachKernels(weights_, begin, end - begin, 0, panels_.groups * kPanel, [&](int64_t row, int64_t channel) {
        WeightElements(weights, weights_, row, channel, panels_.ElementFloats(), panels + panels_.Offset(row, channel));
      });
    });
    ParallelForWorker(threads_, grid_.Count(), block_tiles_, [&](int worker, int64_t begin, int64_t end) {
      RunBlock(args, begin, end, panels + panels_.Floats() + worker * WorkerFloats());
    });
    return absl::OkStatus();
  }

 private:
  using Side = SideOf<E>;

  static int64_t BlockTiles(const TileGrid& grid) {
    const int64_t each = Transformed<Side>::kElements * (grid.input.channels + grid.output.channels);
    return RoundUp(std::min(std::max(kBlockFloats / each, kMinBlockTiles), grid.Count()), kTileRows);
  }

  int64_t WorkerFloats() const { return inputs_.Floats() + outputs_.Floats(); }

  void RunBlock(const KernelArgs& args, int64_t begin, int64_t end, float* scratch) const {
    const auto* from = static_cast<const E*>(args.inputs[0]);
    const auto* bias = has_bias_ ? static_cast<const E*>(args.inputs[2]) : nullptr;
    auto* to = static_cast<E*>(args.outputs[0]);
    const auto* panels = static_cast<const float*>(args.scratch);
    float* const products = scratch + inputs_.Floats();
    TileCursor<Side> input(grid_, begin);
    for (int64_t t = 0; t < end - begin; ++t, input.Advance()) {
      InputTile(from, grid_.input.channels, input.InputPixels(), inputs_, scratch + t * kLanes);
    }
    for (int64_t e = 0; e < Transformed<Side>::kElements; ++e) {
      const LeftBlocks left = {scratch + e * inputs_.ElementFloats(), inputs_.GroupFloats(), inputs_.groups, kLanes};
      for (int64_t panel = 0; panel < panels_.groups; ++panel) {
        MultiplyTiles(left, end - begin, panels + e * panels_.ElementFloats() + panel * panels_.GroupFloats(),
                      weights_.to_channels - panel * kPanel, /*adds=*/false,
                      products + e * outputs_.ElementFloats() + panel * outputs_.GroupFloats());
      }
    }
    TileCursor<Side> output(grid_, begin);
    for (int64_t t = 0; t < end - begin; ++t, output.Advance()) {
      OutputTile(products, outputs_, t, output.OutputPixels(), grid_.output.channels, bias, to);
    }
  }

  TileGrid grid_;
  Weights weights_;
  bool has_bias_;
  int threads_;
  int64_t block_tiles_;
  Transformed<Side> panels_;  // the weights: a row for each channel of the input
  Transformed<Side> inputs_;
  Transformed<Side> outputs_;
};

// kBackwardWeights: for each block of tiles, the products of transformed inputs and gradients are added to as many
// matrices, [from channels, to channels] each.
template <typename E>
class WinogradWeightGradient final : public Kernel {
 public:
  WinogradWeightGradient(const TileGrid& grid, const Weights& weights, int threads)
      : grid_(grid),
        weights_(weights),
        threads_(threads),
        block_tiles_(BlockTiles(grid)),
        panels_(weights.to_channels, RoundUp(weights.from_channels, kLanes), kPanel),
        inputs_(weights.from_channels, block_tiles_, kLanes),
        gradients_(weights.to_channels, block_tiles_, kPanel) {
    scratch_bytes_ = static_cast<size_t>(panels_.Floats() + inputs_.Floats() + gradients_.Floats()) * sizeof(float);
  }

  absl::Status Run(const KernelArgs& args) override {
    auto* const sums = static_cast<float*>(args.scratch);
    auto* const weights = static_cast<E*>(args.outputs[0]);
    for (int64_t begin = 0; begin < grid_.Count(); begin += block_tiles_) {
      const int64_t end = std::min(begin + block_tiles_, grid_.Count());
      float* const inputs = sums + panels_.Floats();
      float* const gradients = inputs + inputs_.Floats();
      Transform(args, begin, end, inputs, gradients);
      ParallelFor(threads_, Transformed<Side>::kElements, 1, [&](int64_t element, int64_t) {
        AddElement(inputs + element * inputs_.ElementFloats(), gradients + element * gradients_.ElementFloats(),
                   end - begin, begin > 0, sums + element * panels_.ElementFloats());
      });
    }
    ParallelFor(threads_, weights_.from_channels, kLanes, [&](int64_t begin, int64_t end) {
      ForEachKernels(weights_, begin, end - begin, 0, weights_.to_channels, [&](int64_t row, int64_t channel) {
        WeightGradients(sums + panels_.Offset(row, channel), panels_.ElementFloats(), weights_, row, channel, weights);
      });
    });
    return absl::OkStatus();
  }

 private:
  using Side = SideOf<E>;

  static int64_t BlockTiles(const TileGrid& grid) {
    const int64_t each = Transformed<Side>::kElements * (grid.input.channels + grid.output.channels);
    return std::min(std::max(kGradientFloats / each, kMinGradientTiles), grid.Count());
  }

  void Transform(const KernelArgs& args, int64_t begin, int64_t end, float* inputs, float* gradients) const {
    const auto* source = static_cast<const E*>(args.inputs[0]);
    const auto* destination = static_cast<const E*>(args.inputs[1]);
    ParallelFor(threads_, end - begin, kTransformGrain, [&](int64_t first, int64_t last) {
      TileCursor<Side> at(grid_, begin + first);
      for (int64_t t = first; t < last; ++t, at.Advance()) {
        InputTile(source, grid_.input.channels, at.InputPixels(), inputs_, inputs + t * kLanes);
        GradientTile(destination, grid_.output.channels, at.OutputPixels(), gradients_, t, gradients);
      }
    });
  }

  void AddElement(const float* inputs, const float* gradients, int64_t tiles, bool adds, float* sums) const {
    for (int64_t panel = 0; panel < panels_.groups; ++panel) {
      for (int64_t group = 0; group < inputs_.groups; ++group) {
        AddProducts(inputs + group * inputs_.GroupFloats(), gradients + panel * gradients_.GroupFloats(), tiles,
                    weights_.to_channels - panel * kPanel, adds,
                    sums + panel * panels_.GroupFloats() + group * kLanes * kPanel);
      }
    }
  }

  TileGrid grid_;
  Weights weights_;
  int threads_;
  int64_t block_tiles_;
  Transformed<Side> panels_;
  Transformed<Side> inputs_;
  Transformed<Side> gradients_;
};

// Returns the tiles of the product, of `side` x `side` pixels. The gradient of data is the product of the gradient of
// the output with the kernels in reverse order, with a padding of 2 * dilation - padding, which may be negative.
TileGrid GridOf(const ConvolutionProblem& p, int64_t side) {
  const Images source = ImagesOf(p.source.layout);
  const Images destination = ImagesOf(p.destination.layout);
  const int64_t rows = p.dilation[0] + 1;
  const int64_t columns = p.dilation[1] + 1;
  if (p.product == ConvolutionProduct::kBackwardData) {
    return {destination,
            source,
            {side, source.rows, 2 * rows - p.padding_before[0], rows},
            {side, source.columns, 2 * columns - p.padding_before[1], columns}};
  }
  return {source,
          destination,
          {side, destination.rows, p.padding_before[0], rows},
          {side, destination.columns, p.padding_before[1], columns}};
}

int64_t OutputPixels(const TileGrid& grid) { return grid.output.count * grid.output.rows * grid.output.columns; }

// Returns true if a convolution of f32 is faster so. A tile takes 16 multiplications for up to four pixels, a direct
// convolution nine for each pixel. Where many tiles are cut, the latter needs fewer, or so few more that the transforms
// take longer (measured, docs/performance.md).
bool IsWorthwhile(const ConvolutionProblem& p, const TileGrid& grid) {
  const int64_t pixels = OutputPixels(grid);
  if (p.product == ConvolutionProduct::kBackwardWeights) {
    return grid.Count() >= kMinWeightGradientTiles && pixels >= 2 * grid.Count();
  }
  return 3 * pixels >= 8 * RoundUp(grid.Count(), kTileRows);
}

// The same for bf16: 36 multiplications for up to 16 pixels, while oneDNN's convolutions have up to twice the rate of
// f32, its gradients of weights up to that of f32.
bool IsWorthwhileForHalves(const ConvolutionProblem& p, const TileGrid& grid) {
  const int64_t pixels = OutputPixels(grid);
  if (p.product == ConvolutionProduct::kBackwardWeights) return pixels >= kMinPixelsOfHalfGradients * grid.Count();
  return std::min(grid.input.channels, grid.output.channels) >= kMinChannelsOfHalves &&
         pixels >= kMinPixelsOfHalves * RoundUp(grid.Count(), kTileRows);
}

Weights WeightsOf(const ConvolutionProblem& p) {
  const StridedLayout w = OwnWeights(p);
  if (p.product == ConvolutionProduct::kBackwardData) {
    return {w.sizes[1], w.sizes[0], w.strides[1], w.strides[0], /*flips=*/true};
  }
  return {w.sizes[0], w.sizes[1], w.strides[0], w.strides[1], /*flips=*/false};
}

// E is the type of all operands, float or BFloat16.
template <typename E>
std::unique_ptr<Kernel> MakeQualified(const ConvolutionProblem& problem, int threads) {
  const TileGrid grid = GridOf(problem, SideOf<E>::kOutputs);
  const Weights weights = WeightsOf(problem);
  // Panels need scratch memory for the transformed tiles, in place of the transformed weights.
  if (problem.product == ConvolutionProduct::kBackwardWeights) {
    if (grid.Count() < weights.from_channels) return MakePanelWeightGradient(grid, weights, problem.dtype, threads);
    return std::make_unique<WinogradWeightGradient<E>>(grid, weights, threads);
  }
  const bool has_bias = problem.bias && problem.product == ConvolutionProduct::kForward;
  if (grid.Count() < weights.to_channels) return MakePanelProduct(grid, weights, has_bias, problem.dtype, threads);
  return std::make_unique<WinogradProduct<E>>(grid, weights, has_bias, threads);
}

}  // namespace
}  // namespace winograd

bool IsWinogradWorthwhile(const ConvolutionProblem& p) {
  if (!HasAvx512Lanes() || p.stride.size() != 2 || p.groups != 1 || !AllAre(p.stride, 1)) return false;
  const DimVector& weights = p.weights.layout.sizes;
  if (weights[2] != 3 || weights[3] != 3 || std::min(weights[0], weights[1]) < winograd::kMinChannels) return false;
  if (p.dtype == DType::kFloat32) return winograd::IsWorthwhile(p, winograd::GridOf(p, winograd::Side2::kOutputs));
  return p.dtype == DType::kBFloat16 &&
         winograd::IsWorthwhileForHalves(p, winograd::GridOf(p, winograd::Side4::kOutputs));
}

std::unique_ptr<Kernel> MakeWinograd(const ConvolutionProblem& problem, int threads) {
  if (!IsWinogradWorthwhile(problem)) return nullptr;
  if (problem.dtype == DType::kFloat32) return winograd::MakeQualified<float>(problem, threads);
  return winograd::MakeQualified<BFloat16>(problem, threads);
}

#else

bool IsWinogradWorthwhile(const ConvolutionProblem& /*problem*/) { return false; }

std::unique_ptr<Kernel> MakeWinograd(const ConvolutionProblem& /*problem*/, int /*threads*/) { return nullptr; }

#endif

}  // namespace cotan::cpu
