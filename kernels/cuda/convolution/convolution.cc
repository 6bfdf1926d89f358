// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/convolution/convolution.h"

#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "kernels/cuda/convolution/convolution_copy.h"
#include "kernels/cuda/convolution/convolution_problem.h"
#include "kernels/cuda/convolution/cudnn_convolution.h"
#include "kernels/cuda/convolution/own_convolution.h"

namespace cotan::cuda {
namespace {

constexpr size_t kScratchAlignment = 256;  // of each tensor in the scratch, relative to its begin

bool IsEmpty(const ConvolutionOperand& operand) { return NumElements(operand.layout.sizes) == 0; }

// Returns whether the dimensions of `layout` lie in memory in the order `inner_to_outer`, with gaps at most.
bool HasOrder(const StridedLayout& layout, absl::Span<const size_t> inner_to_outer) {
  int64_t extent = 1;
  for (const size_t d : inner_to_outer) {
    if (layout.sizes[d] == 1) continue;
    if (layout.strides[d] < extent) return false;
    extent = layout.strides[d] * layout.sizes[d];
  }
  return true;
}

// Returns whether cuDNN takes a tensor as it is: row-major or channels last, weights without gaps.
bool IsTakenByCudnn(const StridedLayout& layout, bool is_weights) {
  constexpr size_t kRowMajor[] = {4, 3, 2, 1, 0};
  constexpr size_t kChannelsLast[] = {1, 4, 3, 2, 0};
  if (is_weights && !IsDenseNonOverlapping(layout)) return false;
  return HasOrder(layout, kRowMajor) || HasOrder(layout, kChannelsLast);
}

// Returns whether the gradient of wide has the sizes that cuDNN expects: it derives narrow's from wide's. An output
// padding as large as the stride, which dilation allows, is a window more.
bool HasDerivedSizes(const ConvolutionProblem& problem) {
  for (size_t d = 0; d < kSpatialDims; ++d) {
    const int64_t extent = problem.dilation[d] * (problem.weights.layout.sizes[d + 2] - 1) + 1;
    const int64_t padded = problem.wide.layout.sizes[d + 2] + 2 * problem.padding[d];
    if (padded < extent || (padded - extent) / problem.stride[d] + 1 != problem.narrow.layout.sizes[d + 2])
      return false;
  }
  return true;
}

// Plans the call of cuDNN and the copies around it.
class CudnnPlanner {
 public:
  CudnnPlanner(ConvolutionProblem problem, bool guarded) : problem_(std::move(problem)), guarded_(guarded) {}

  absl::StatusOr<KernelPlan> Plan() {
    const ConvolutionOperand result = problem_.Result();
    bool is_result_copied = guarded_;
    for (ConvolutionOperand* operand : {&problem_.wide, &problem_.weights, &problem_.narrow}) {
      if (IsTakenByCudnn(operand->layout, operand == &problem_.weights)) continue;
      if (operand == &problem_.Result()) {
        is_result_copied = true;
        continue;
      }
      const ConvolutionOperand packed = AddScratch(operand->layout);
      COTAN_RETURN_IF_ERROR(AddCopy(*operand, std::nullopt, packed, /*guarded=*/false));
      *operand = packed;
    }
    if (is_result_copied) problem_.Result() = AddScratch(result.layout);
    const bool fuses_bias = CudnnConvolution::FusesBias(problem_);
    const std::optional<ConvolutionOperand> added_bias = fuses_bias ? std::nullopt : problem_.bias;
    if (!fuses_bias) problem_.bias.reset();
    LibraryCall call = {std::make_shared<const CudnnConvolution>(problem_),
                        {problem_.wide.argument, problem_.weights.argument, problem_.narrow.argument}};
    if (fuses_bias) call.arguments.push_back(problem_.bias->argument);
    plan_.steps.push_back(std::move(call));
    if (is_result_copied || added_bias) {
      COTAN_RETURN_IF_ERROR(AddCopy(problem_.Result(), added_bias, result, guarded_));
    }
    return std::move(plan_);
  }

 private:
  // Returns a dense tensor in the scratch, row-major or channels last as `layout` is.
  ConvolutionOperand AddScratch(const StridedLayout& layout) {
    const bool channels_last = layout.sizes[1] > 1 && layout.strides[1] == 1;
    const DimVector order = channels_last ? DimVector{0, 2, 3, 4, 1} : DimVector{0, 1, 2, 3, 4};
    const StridedLayout dense = {layout.sizes, DenseStrides(layout.sizes, order), 0};
    const auto offset = static_cast<int64_t>(plan_.scratch_bytes);
    const size_t bytes = static_cast<size_t>(NumElements(layout.sizes)) * ByteSize(problem_.dtype);
    plan_.scratch_bytes += (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
    return {dense, ScratchArgument(offset)};
  }

  absl::Status AddCopy(const ConvolutionOperand& from, const std::optional<ConvolutionOperand>& bias,
                       const ConvolutionOperand& to, bool guarded) {
    COTAN_ASSIGN_OR_RETURN(KernelLaunch launch, MakeConvolutionCopy(problem_.dtype, from, bias, to, guarded));
    plan_.steps.push_back(std::move(launch));
    return absl::OkStatus();
  }

  ConvolutionProblem problem_;
  const bool guarded_;
  KernelPlan plan_;
};

}  // namespace

absl::StatusOr<KernelPlan> PlanCudnnConvolution(const KernelRequest& request) {
  COTAN_ASSIGN_OR_RETURN(const ConvolutionProblem problem, DescribeConvolution(request));
  if (IsEmpty(problem.wide) || IsEmpty(problem.weights) || IsEmpty(problem.narrow) || !HasDerivedSizes(problem)) {
    return PlanOwnConvolution(request);
  }
  return CudnnPlanner(problem, request.guarded_outputs).Plan();
}

}  // namespace cotan::cuda
