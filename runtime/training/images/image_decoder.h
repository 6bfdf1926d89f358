// SPDX-License-Identifier: Apache-2.0

// Decodes images with the libraries of the system: libpng and libjpeg-turbo.
#ifndef COTAN_RUNTIME_TRAINING_IMAGES_IMAGE_DECODER_H_
#define COTAN_RUNTIME_TRAINING_IMAGES_IMAGE_DECODER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cotan::training {

// Pixels in row-major order, [channels, height, width], as a convolution takes them; 0 is black.
struct Image {
  int64_t channels = 0;  // 1: gray; 3: red, green, blue
  int64_t height = 0;
  int64_t width = 0;
  std::vector<uint8_t> pixels;
};

// Decodes a PNG file of any color type, or a JPEG file in colors or gray, to 1 or 3 channels of 8 bits in the sRGB
// color space; transparent pixels are laid on black. Untrusted input is safe.
// InvalidArgument: the bytes are of neither format, damaged, a JPEG file in the colors of printers (CMYK or YCCK), or
// more than 2^26 pixels; or `channels` is neither 1 nor 3.
// ResourceExhausted: a library has not enough memory.
absl::StatusOr<Image> DecodeImage(absl::string_view bytes, int channels);

}  // namespace cotan::training

#endif  // COTAN_RUNTIME_TRAINING_IMAGES_IMAGE_DECODER_H_
