// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/convolution/pointwise.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "kernels/cpu/copy/copy.h"
#include "kernels/cpu/matmul/avx512_gemm.h"
#include "kernels/cpu/matmul/matmul.h"
#include "kernels/cpu/simd/amx_tiles.h"
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
int64_t CountPixels(const ConvolutionProblem& p) {
  return NumElements(p.destination.layout.sizes) / p.destination.layout.sizes[1];
}

// Returns true if products of the problem's dtype run on AMX.
bool IsByAmx(const ConvolutionProblem& p) { return p.dtype == DType::kBFloat16 && amx::IsAvailable(); }

// Returns true if the kernel does not meet all pixels of the source: between strides, or behind the last one, which a
// transposed convolution adds to its output.
bool LeavesGaps(const ConvolutionProblem& p) { return !AllAre(p.stride, 1) || !AllAre(p.padding_after, 0); }

bool IsWorthwhile(const ConvolutionProblem& p) {
  if (IsByAmx(p)) return true;
  const int64_t weights = NumElements(p.weights.layout.sizes);
  if (CountPixels(p) <= kVeryFewPixels && weights >= kMinWeightsOfVeryFewPixels) return true;
  const int64_t channels = std::min(p.weights.layout.sizes[0], p.weights.layout.sizes[1]);
  if (p.product == ConvolutionProduct::kBackwardData) {
    return HasAvx512Gemm() && channels >= kMinChannelsOfDataGradient;
  }
  if (CountPixels(p) <= kMaxPixels && weights >= kMinWeights) return true;
  // With gaps, the pixels are copied, which needs memory.
  return p.product == ConvolutionProduct::kBackwardWeights && !LeavesGaps(p) && HasAvx512Gemm() &&
         channels >= kMinChannelsOfWeightGradient;
}

bool Qualifies(const ConvolutionProblem& p) {
  const DimVector& weights = p.weights.layout.sizes;
  if ((p.dtype != DType::kFloat32 && !IsByAmx(p)) || p.groups != 1) return false;
  if (NumElements(weights) != weights[0] * weights[1]) return false;
  if (p.product == ConvolutionProduct::kBackwardData && LeavesGaps(p) && !IsByAmx(p)) return false;
  const bool is_inside = AllAre(p.padding_before, 0) &&
                         std::all_of(p.padding_after.begin(), p.padding_after.end(), [](int64_t v) { return v <= 0; });
  return is_inside && IsWorthwhile(p);
}

StridedLayout Matrix(int64_t rows, int64_t columns) { return {{rows, columns}, {columns, 1}, 0}; }
// Returns the layout of the transposed matrix of a row-major one with these sizes.
StridedLayout Transposed(int64_t rows, int64_t columns) { return {{columns, rows}, {1, columns}, 0}; }

// The source pixels that the kernel meets: [images, positions, channels], with strides in the source.
struct Pixels {
  DimVector sizes;
  DimVector strides;
};

Pixels PixelsOf(const ConvolutionProblem& p) {
  const DimVector& source = p.source.layout.sizes;
  int64_t pixel_stride = NumElements(source) / source[0];
  Pixels pixels = {{source[0]}, {pixel_stride}};
  for (size_t d = 0; d < p.stride.size(); ++d) {
    pixel_stride /= source[d + 2];
    pixels.sizes.push_back(p.destination.layout.sizes[d + 2]);
    pixels.strides.push_back(p.stride[d] * pixel_stride);
  }
  pixels.sizes.push_back(source[1]);
  pixels.strides.push_back(1);
  return pixels;
}

// Returns a slot with the source pixels that the kernel meets, dense: the source itself if it meets all.
Slot BringPixels(const ConvolutionProblem& p, int threads, Pipeline& pipeline) {
  const Slot source = Slot::Input(0);
  if (!LeavesGaps(p)) return source;
  const size_t element = ByteSize(p.dtype);
  const Pixels from = PixelsOf(p);
  const Slot pixels = pipeline.AddScratch(static_cast<size_t>(NumElements(from.sizes)) * element);
  pipeline.Add(MakeCopyKernel(element, from.sizes, from.strides, ContiguousStrides(from.sizes), threads), {source},
               {pixels});
  return pixels;
}

// Adds copies of dense pixels to the source's gradient, whose other pixels become zeros.
void SpreadPixels(const ConvolutionProblem& p, Slot pixels, int threads, Pipeline& pipeline) {
  const size_t element = ByteSize(p.dtype);
  const int64_t count = NumElements(p.source.layout.sizes);
  const Pixels to = PixelsOf(p);
  pipeline.Add(MakeZeroKernel(element, {{count}, {1}, 0}, threads), {}, {Slot::Output(0)});
  pipeline.Add(MakeCopyKernel(element, to.sizes, ContiguousStrides(to.sizes), to.strides, threads), {pixels},
               {Slot::Output(0)});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakePointwise(const ConvolutionProblem& problem, int threads) {
  if (!Qualifies(problem)) return nullptr;
  const int64_t pixels = CountPixels(problem);
  const int64_t in = problem.source.layout.sizes[1];
  const int64_t out = problem.destination.layout.sizes[1];
  serialization::Op op;
  op.mutable_matmul();
  const auto make = [&](const StridedLayout& left, const StridedLayout& right, const StridedLayout& result,
                        bool has_bias = false) {
    std::vector<TensorSpec> inputs = {{problem.dtype, left}, {problem.dtype, right}};
    if (has_bias) inputs.push_back({problem.dtype, {{out}, {1}, 0}});
    const TensorSpec output = {problem.dtype, result};
    return MakeMatmul({op, inputs, {&output, 1}, {}, threads});
  };
  auto pipeline = std::make_unique<Pipeline>(threads);
  if (problem.product == ConvolutionProduct::kBackwardData) {
    COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> product,
                           make(Matrix(pixels, out), Matrix(out, in), Matrix(pixels, in)));
    const bool spreads = LeavesGaps(problem);
    const auto bytes = static_cast<size_t>(pixels * in) * ByteSize(problem.dtype);
    const Slot result = spreads ? pipeline->AddScratch(bytes) : Slot::Output(0);
    pipeline->Add(std::move(product), {Slot::Input(0), Slot::Input(1)}, {result});
    if (spreads) SpreadPixels(problem, result, threads, *pipeline);
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
