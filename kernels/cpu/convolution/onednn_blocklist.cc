// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/convolution/onednn_blocklist.h"

#include "absl/strings/match.h"

namespace cotan::cpu {
namespace {

// Elements of the widest f32 vector that these implementations use.
constexpr int64_t kLanes = 16;

bool IsStrided(const ConvolutionProblem& problem) { return !AllAre(problem.stride, 1); }

bool IsStridedIntoPadding(const ConvolutionProblem& problem) {
  for (size_t d = 0; d < problem.stride.size(); ++d) {
    if (problem.stride[d] > 1 && problem.padding_before[d] > 0) return true;
  }
  return false;
}

// bf16 is multiplied in pairs of channels: of an odd number of them, the last pair of version 2 reads the next pixel.
bool IsBackwardDataMiscomputed(const ConvolutionProblem& problem, absl::string_view name, int version) {
  const int64_t channels = problem.destination.layout.sizes[1] / problem.groups;
  return version < 3 && name == "jit_bf16_1x1" && channels % 2 != 0;
}

bool IsBackwardWeightsMiscomputed(const ConvolutionProblem& problem, absl::string_view name, bool is_amx) {
  const int64_t channels = problem.weights.layout.sizes[1];
  // The implementation copies the strided pixels in whole vectors of channels.
  if (absl::EndsWith(name, "_1x1")) return IsStrided(problem) && channels % kLanes != 0;
  if (name != "jit" && name != "jit_bf16" && !is_amx) return false;
  // With a dilation, some numbers of channels, as 33, are read from the scratchpad up to a whole vector.
  const bool is_dilated = !AllAre(problem.dilation, 0);
  if (problem.dtype == DType::kBFloat16 && is_dilated && channels % kLanes != 0) return true;
  if (problem.stride.size() == 3) return IsStridedIntoPadding(problem);
  return problem.dtype == DType::kBFloat16 && problem.source.layout.sizes.back() < problem.stride.back();
}

// Kernels for AMX copy the pixels that a kernel of the convolution meets to a buffer. With strides that skip pixels, or
// in three dimensions, they read and write behind its end.
bool IsMiscomputedByAmx(const ConvolutionProblem& problem) {
  if (problem.stride.size() == 3 && IsStrided(problem)) return true;
  for (size_t d = 0; d < problem.stride.size(); ++d) {
    const int64_t extent = (problem.weights.layout.sizes[d + 2] - 1) * (problem.dilation[d] + 1) + 1;
    if (problem.stride[d] > extent) return true;
  }
  // Version 3 reads pixels behind a row for its only result.
  const bool has_gaps = problem.stride.back() > 1 || problem.dilation.back() > 0;
  return problem.product == ConvolutionProduct::kForward && has_gaps && problem.destination.layout.sizes.back() == 1;
}

}  // namespace

bool IsMiscomputedByOneDnn(const ConvolutionProblem& problem, absl::string_view implementation, int version) {
  const absl::string_view name = implementation.substr(0, implementation.find(':'));
  const bool is_amx = absl::StrContains(implementation, "amx");
  if (is_amx && IsMiscomputedByAmx(problem)) return true;
  if (problem.product == ConvolutionProduct::kBackwardData) return IsBackwardDataMiscomputed(problem, name, version);
  return problem.product == ConvolutionProduct::kBackwardWeights && IsBackwardWeightsMiscomputed(problem, name, is_amx);
}

}  // namespace cotan::cpu
