// SPDX-License-Identifier: Apache-2.0

// Decodes PNG and JPEG files: an accepted one has a pixel for each place.
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "runtime/training/images/image_decoder.h"
#include "runtime/training/images/test_images.h"
#include "testing/fuzz/fuzz_target.h"
#include "testing/fuzz/wire_mutator.h"

namespace cotan::testing {

bool RunInput(absl::string_view input) {
  for (const int channels : {1, 3}) {
    const absl::StatusOr<training::Image> image = training::DecodeImage(input, channels);
    if (!image.ok()) return false;
    const auto expected = static_cast<size_t>(channels * image->height * image->width);
    Require(image->pixels.size() == expected, "each place has a pixel");
  }
  return true;
}

std::string MutateInput(absl::string_view input, std::mt19937_64& random) { return MutateBytes(input, random); }

std::vector<std::string> SeedInputs() {
  const std::vector<uint8_t> pixels(3 * 16 * 8, 100);
  return {training::testing::PngFile(pixels, 16, 8), training::testing::JpegFile(pixels, 16, 8)};
}

}  // namespace cotan::testing
