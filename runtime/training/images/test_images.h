// SPDX-License-Identifier: Apache-2.0

// Image files for tests.
#ifndef COTAN_RUNTIME_TRAINING_IMAGES_TEST_IMAGES_H_
#define COTAN_RUNTIME_TRAINING_IMAGES_TEST_IMAGES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace cotan::training::testing {

// Return the bytes of a file with these pixels, [height, width, 3].
std::string PngFile(const std::vector<uint8_t>& pixels, int width, int height);
std::string JpegFile(const std::vector<uint8_t>& pixels, int width, int height);

// Returns the bytes of a JPEG file in YCCK with these pixels, [height, width, 4], in CMYK.
std::string YcckJpegFile(const std::vector<uint8_t>& pixels, int width, int height);

}  // namespace cotan::training::testing

#endif  // COTAN_RUNTIME_TRAINING_IMAGES_TEST_IMAGES_H_
