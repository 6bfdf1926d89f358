// SPDX-License-Identifier: Apache-2.0

// One spatial dimension of a convolution.
#ifndef COTAN_KERNELS_CPU_CONVOLUTION_CONVOLUTION_AXIS_H_
#define COTAN_KERNELS_CPU_CONVOLUTION_CONVOLUTION_AXIS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/convolution/convolution_problem.h"

namespace cotan::cpu {

struct ConvolutionAxis {
  int64_t source = 1;
  int64_t destination = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t padding = 0;

  // Returns the source position of tap 0 at destination position `at`.
  int64_t Origin(int64_t at) const { return at * stride - padding; }
};

// Returns spatial dimension `d` of a problem.
inline ConvolutionAxis ConvolutionAxisOf(const ConvolutionProblem& p, size_t d) {
  return {.source = p.source.layout.sizes[d + 2],
          .destination = p.destination.layout.sizes[d + 2],
          .kernel = p.weights.layout.sizes[d + 2],
          .stride = p.stride[d],
          .dilation = p.dilation[d] + 1,
          .padding = p.padding_before[d]};
}

// A range of positions.
struct ConvolutionRange {
  int64_t begin;
  int64_t end;
};

// Returns the destination positions at which taps [first, first + count) are inside of the source.
inline ConvolutionRange InteriorOf(const ConvolutionAxis& axis, int64_t first, int64_t count) {
  const int64_t low = std::max<int64_t>(0, axis.padding - first * axis.dilation);
  const int64_t begin = std::min((low + axis.stride - 1) / axis.stride, axis.destination);
  const int64_t high = axis.source - 1 + axis.padding - (first + count - 1) * axis.dilation;
  const int64_t end = high < 0 ? 0 : std::min(high / axis.stride + 1, axis.destination);
  return {begin, std::max(begin, end)};
}

// Returns the destination positions with a tap at a source position in `range`, which is not empty; for a dilated axis
// some have none.
inline ConvolutionRange ReachOf(const ConvolutionAxis& axis, const ConvolutionRange& range) {
  const int64_t low = std::max<int64_t>(0, range.begin + axis.padding - (axis.kernel - 1) * axis.dilation);
  const int64_t begin = std::min((low + axis.stride - 1) / axis.stride, axis.destination);
  const int64_t high = range.end - 1 + axis.padding;
  const int64_t end = high < 0 ? 0 : std::min(high / axis.stride + 1, axis.destination);
  return {begin, std::max(begin, end)};
}

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_CONVOLUTION_CONVOLUTION_AXIS_H_
