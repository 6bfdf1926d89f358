// SPDX-License-Identifier: Apache-2.0

// A convolution of two spatial dimensions as the kernels of convolution_windows.cuh and convolution_weights.cuh take
// it: windows of a result slide over a source.
#ifndef COTAN_KERNELS_CUDA_CONVOLUTION_WINDOW_GEOMETRY_H_
#define COTAN_KERNELS_CUDA_CONVOLUTION_WINDOW_GEOMETRY_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "kernels/cuda/convolution/convolution_problem.h"

namespace cotan::cuda {

// Height and width.
using Extent = std::array<int64_t, 2>;

// Strides in elements of a tensor of images.
struct ImageStrides {
  int64_t image = 0;
  int64_t channel = 0;
  Extent at = {0, 0};
};

// The constants of kernels/cuda/source/convolution_patch.cuh and of the headers that include it.
struct WindowGeometry {
  DType dtype = DType::kFloat32;  // f32 or f64
  int64_t images = 0;
  Extent result = {1, 1};
  int64_t channels = 0;  // of the result
  Extent source = {1, 1};
  int64_t source_channels = 0;
  Extent taps = {1, 1};
  Extent stride = {1, 1};
  Extent dilation = {1, 1};
  Extent padding = {0, 0};  // before the first element; may be negative
  ImageStrides source_strides;
  ImageStrides result_strides;
  int64_t result_offset = 0;
  int64_t source_vector = 1;  // channels next to each other, if the tensor is aligned to 16 bytes: 4 or 1
  int64_t result_vector = 1;
  int64_t weight_offset = 0;
  int64_t weight_source = 0;  // stride of the channels of the source
  int64_t weight_result = 0;
  Extent weight_at = {0, 0};  // may be negative
  int64_t bias = 0;

  int64_t NumTaps() const { return taps[0] * taps[1]; }
  // Returns the products that the definition has, padding included.
  int64_t NumProducts() const { return images * result[0] * result[1] * channels * source_channels * NumTaps(); }
};

// Returns whether `problem` has such a geometry: no groups, one or two spatial dimensions, f32 or f64, a kernel of up
// to 64 elements (16 in a row), nothing empty, and all offsets of elements fit 31 bits.
bool HasWindowGeometry(const ConvolutionProblem& problem);

// Returns the geometries of a problem for which HasWindowGeometry(), each of which computes a part of the result: one
// for kForward and kBackwardWeights, whose result is narrow; for kBackwardData one for each residue of the coordinates
// of wide modulo the stride, that of the most taps first. A part that no window covers has no channels of the source.
std::vector<WindowGeometry> WindowGeometries(const ConvolutionProblem& problem);

// Returns the geometry as the type `name`.
std::string GeometryText(const WindowGeometry& geometry, absl::string_view name);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_CONVOLUTION_WINDOW_GEOMETRY_H_
