// SPDX-License-Identifier: Apache-2.0

// Pictures of digits, drawn or read from a file, and batches of them.
#ifndef COTAN_EXAMPLES_DIGITS_DIGIT_IMAGES_H_
#define COTAN_EXAMPLES_DIGITS_DIGIT_IMAGES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "examples/digits/sizes.h"

namespace cotan::digits {

// Images and their labels. Image i begins at pixels[i * kPixels], row by row, 0 = background, 255 =
// ink; labels[i] is in [0, kClasses).
struct DigitImages {
  std::vector<uint8_t> pixels;
  std::vector<uint8_t> labels;

  int64_t count() const { return static_cast<int64_t>(labels.size()); }
};

// Draws `count` digits in several stroke fonts, each shifted, turned, scaled,
// slanted, of its own thickness and noisy. The images depend on `seed` alone;
// the first n of them do not depend on `count`.
DigitImages DrawDigits(int64_t count, uint64_t seed);

// Writes the images at `order`, normalized to mean about 0 and standard deviation about 1, and
// their labels. `inputs` has order.size() * kPixels elements, `labels` has order.size().
void FillBatch(const DigitImages& images, absl::Span<const int64_t> order, absl::Span<float> inputs,
               absl::Span<int64_t> labels);

}  // namespace cotan::digits

#endif  // COTAN_EXAMPLES_DIGITS_DIGIT_IMAGES_H_
