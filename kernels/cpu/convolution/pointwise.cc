// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/convolution/pointwise.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "kernels/cpu/copy/copy.h"
#include "kernels/cpu/matmul/avx512_gemm.h"
#include "kernels/cpu/matmul/matmul.h"
#include "kernels/cpu/threading/pipeline.h"

namespace cotan::cpu {
namespace {

// A product of oneDNN's convolution reorders the weights first, which takes as long as the sums of some 200 pixels;
// with small weights, which stay in cache, both kernels are equally fast in forward products unless there are very few
// pixels (docs/performance.md). Gradients by products with AVX-512 are faster on Intel's processors unless there are
// few channels; without AVX-512 that was not measured.
constexpr int64_t kMaxPixels = 512;
constexpr int64_t kMinWeights = 128 * 1024;
constexpr int64_t kMinChannelsOfWeightGradient = 24;
constexpr int64_t kMinChannelsOfDataGradient = 64;
constexpr int64_t kVeryFewPixels = 64;
constexpr int64_t kMinWeightsOfVeryFewPixels = 8 * 1024;

// Returns the pixels of the output of all images.
int64_t Pixels(const ConvolutionProblem& p) {
  return NumElements(p.destination.layout.sizes) / p.destination.layout.sizes[1];
}

bool IsWorthwhile(const ConvolutionProblem& p) {
  const int64_t weights = NumElements(p.weights.layout.sizes);
  if (Pixels(p) <= kVeryFewPixels && weights >= kMinWeightsOfVeryFewPixels) return true;
  const int64_t channels = std::min(p.weights.layout.sizes[0], p.weights.layout.sizes[1]);
  if (p.product == ConvolutionProduct::kBackwardData) {
    return HasAvx512Gemm() && channels >= kMinChannelsOfDataGradient;
  }
  if (Pixels(p) <= kMaxPixels && weights >= kMinWeights) return true;
  // With strides, the pixels are copied, which needs memory.
  return p.product == ConvolutionProduct::kBackwardWeights && AllAre(p.stride, 1) && HasAvx512Gemm() &&
         channels >= kMinChannelsOfWeightGradient;
}

bool Qualifies(const ConvolutionProblem& p) {
  const DimVector& weights = p.weights.layout.sizes;
  if (p.dtype != DType::kFloat32 || p.groups != 1) return false;
  if (NumElements(weights) != weights[0] * weights[1]) return false;
  // A gradient of data with strides leaves gaps.
  if (p.product == ConvolutionProduct::kBackwardData && (!AllAre(p.stride, 1) || !AllAre(p.padding_after, 0))) {
    return false;
  }
  const bool is_inside = AllAre(p.padding_before, 0) &&
                         std::all_of(p.padding_after.begin(), p.padding_after.end(), [](int64_t v) { return v <= 0; });
  return is_inside && IsWorthwhile(p);
}

TensorSpec Matrix(int64_t rows, int64_t columns) { return {DType::kFloat32, {{rows, columns}, {columns, 1}, 0}}; }
// The transposed matrix of a row-major one with these sizes.
TensorSpec Transposed(int64_t rows, int64_t columns) { return {DType::kFloat32, {{columns, rows}, {1, columns}, 0}}; }

// Returns a slot with the source pixels that the kernel meets, [pixels, channels]: the source itself without strides.
Slot BringPixels(const ConvolutionProblem& p, int threads, Pipeline& pipeline) {
  const Slot source = Slot::Input(0);
  if (AllAre(p.stride, 1)) return source;
  const int64_t channels = p.source.layout.sizes[1];
  DimVector sizes = {p.source.layout.sizes[0]};
  DimVector strides = {NumElements(p.source.layout.sizes) / p.source.layout.sizes[0]};
  int64_t pixel_stride = strides[0];
  for (size_t d = 0; d < p.stride.size(); ++d) {
    pixel_stride /= p.source.layout.sizes[d + 2];
    sizes.push_back(p.destination.layout.sizes[d + 2]);
    strides.push_back(p.stride[d] * pixel_stride);
  }
  sizes.push_back(channels);
  strides.push_back(1);
  const Slot pixels = pipeline.AddScratch(static_cast<size_t>(NumElements(sizes)) * sizeof(float));
  pipeline.Add(MakeCopyKernel(sizeof(float), sizes, strides, ContiguousStrides(sizes), threads), {source}, {pixels});
  return pixels;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakePointwise(const ConvolutionProblem& problem, int threads) {
  if (!Qualifies(problem)) return nullptr;
  const int64_t pixels = Pixels(problem);
  const int64_t in = problem.source.layout.sizes[1];
  const int64_t out = problem.destination.layout.sizes[1];
  serialization::Op op;
  op.mutable_matmul();
  const auto make = [&](const TensorSpec& left, const TensorSpec& right, const TensorSpec& result,
                        bool has_bias = false) {
    std::vector<TensorSpec> inputs = {left, right};
    if (has_bias) inputs.push_back({DType::kFloat32, {{out}, {1}, 0}});
    return MakeMatmul({op, inputs, {&result, 1}, {}, threads});
  };
  auto pipeline = std::make_unique<Pipeline>(threads);
  if (problem.product == ConvolutionProduct::kBackwardData) {
    COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> product,
                           make(Matrix(pixels, out), Matrix(out, in), Matrix(pixels, in)));
    pipeline->Add(std::move(product), {Slot::Input(0), Slot::Input(1)}, {Slot::Output(0)});
    return pipeline;
  }
  const Slot source = BringPixels(problem, threads, *pipeline);
  if (problem.product == ConvolutionProduct::kForward) {
    std::vector<Slot> operands = {source, Slot::Input(1)};
    if (problem.bias) operands.push_back(Slot::Input(2));
    COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> product, make(Matrix(pixels, in), Transposed(out, in),
                                                                 Matrix(pixels, out), problem.bias.has_value()));
    pipeline->Add(std::move(product), std::move(operands), {Slot::Output(0)});
    return pipeline;
  }
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> product,
                         make(Transposed(pixels, out), Matrix(pixels, in), Matrix(out, in)));
  pipeline->Add(std::move(product), {Slot::Input(1), source}, {Slot::Output(0)});
  return pipeline;
}

}  // namespace cotan::cpu
