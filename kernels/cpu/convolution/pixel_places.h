// SPDX-License-Identifier: Apache-2.0

// Images of both tensors of a convolution in one order of pixels, in which the pixels that a tap of the kernel meets
// are those of the first tap, some places further. A gradient of weights is then one matrix product for each tap, of
// the same matrices at different places.
#ifndef COTAN_KERNELS_CPU_CONVOLUTION_PIXEL_PLACES_H_
#define COTAN_KERNELS_CPU_CONVOLUTION_PIXEL_PLACES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cpu/convolution/convolution_problem.h"

namespace cotan::cpu {

// One dimension of images: `extent` places, of which place p has the element first + p * step of the tensor, or none if
// that is outside of [0, size).
struct PlaceAxis {
  int64_t extent = 1;
  int64_t size = 1;
  int64_t step = 1;
  int64_t first = 0;
  int64_t stride = 0;  // elements of the tensor
};

// Images, and their spatial dimensions: those that a problem lacks come first, and have one place.
using PlaceAxes = std::array<PlaceAxis, 4>;

// A tap of the kernel: which images of the source it reads, and how many places behind those of the destination.
struct TapPlace {
  size_t phase = 0;
  int64_t shift = 0;
};

// The places of a problem. A *phase* has the elements of the source whose indices have the same remainders by the
// strides. Images of the destination are as wide and as high as those of the phases. Places without a pixel are the
// source's padding, and as many places of the destination.
struct PixelPlaces {
  PlaceAxes destination;
  std::vector<PlaceAxes> phases;  // of the source
  std::vector<TapPlace> taps;     // in the order of the weights
  int64_t image_places = 1;
  int64_t used_places = 1;  // of an image, to the last pixel of the destination
  int64_t last_shift = 0;
  bool has_odd_shifts = false;
  int64_t row_taps = 1;  // more: a tap of `taps` stands for all of a row of the kernel, `dilation` elements apart
  int64_t dilation = 1;
};

// Returns the places of a problem whose activations are dense channels last. With `joins_rows`, a tap is a row of the
// kernel.
PixelPlaces PixelPlacesOf(const ConvolutionProblem& problem, bool joins_rows);

// The pixels of images of 16-bit elements in the order of their places. References its arguments.
class PixelWalk {
 public:
  // Starts at place `at`. Places without a pixel have `zeros`.
  PixelWalk(const PlaceAxes& axes, const uint16_t* tensor, const uint16_t* zeros, int64_t at);

  // Writes the next `count` pixels.
  void Fill(const uint16_t** pixels, int64_t count);

  // Writes the next `count` windows of `taps` pixels of a row, `dilation` apart: [taps, channels]. Those that are not
  // in one piece of the tensor are copied to `copies`.
  void FillWindows(int64_t taps, int64_t dilation, const uint16_t** windows, int64_t count, uint16_t* copies);

 private:
  void GoToNextRow();
  void FindRow();

  const PlaceAxes& axes_;
  const uint16_t* const tensor_;
  const uint16_t* const zeros_;
  std::array<int64_t, 4> at_;
  int64_t first_;  // the columns with a pixel: [first_, last_)
  int64_t last_;
  const uint16_t* row_;  // null: none
};

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_CONVOLUTION_PIXEL_PLACES_H_
