// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/images/test_images.h"

#include <png.h>
#include <turbojpeg.h>

#include "gtest/gtest.h"

namespace cotan::training::testing {

std::string PngFile(const std::vector<uint8_t>& pixels, int width, int height) {
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string bytes(size, '\0');
  EXPECT_NE(png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, nullptr), 0) << image.message;
  bytes.resize(size);
  return bytes;
}

namespace {

std::string Compress(const std::vector<uint8_t>& pixels, int width, int height, int pixel_format) {
  constexpr int kQuality = 95;
  const tjhandle handle = tjInitCompress();
  unsigned char* data = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): the type of the library's interface
  EXPECT_EQ(tjCompress2(handle, pixels.data(), width, 0, height, pixel_format, &data, &size, TJSAMP_444, kQuality, 0),
            0);
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  tjFree(data);
  tjDestroy(handle);
  return bytes;
}

}  // namespace

std::string JpegFile(const std::vector<uint8_t>& pixels, int width, int height) {
  return Compress(pixels, width, height, TJPF_RGB);
}

std::string YcckJpegFile(const std::vector<uint8_t>& pixels, int width, int height) {
  return Compress(pixels, width, height, TJPF_CMYK);
}

}  // namespace cotan::training::testing
