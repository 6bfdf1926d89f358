// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/images/image_decoder.h"

#include <png.h>
#include <turbojpeg.h>

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace cotan::training {
namespace {

constexpr int64_t kMaxPixels = int64_t{1} << 26;
constexpr absl::string_view kPngMagic = "\x89PNG\r\n\x1a\n";
constexpr absl::string_view kJpegMagic = "\xff\xd8\xff";

absl::Status CheckSize(int64_t width, int64_t height) {
  if (width > 0 && height > 0 && width <= kMaxPixels / height) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("an image of ", width, " x ", height, " pixels; at most ", kMaxPixels, " are supported"));
}

// Releases what libpng keeps for an image.
struct PngImage {
  png_image image = {};
  PngImage() { image.version = PNG_IMAGE_VERSION; }
  PngImage(const PngImage&) = delete;
  PngImage& operator=(const PngImage&) = delete;
  ~PngImage() { png_image_free(&image); }
};

struct JpegDeleter {
  void operator()(void* handle) const { tjDestroy(handle); }
};

// Pixels with the channels of a pixel side by side.
struct Interleaved {
  int64_t width = 0;
  int64_t height = 0;
  std::vector<uint8_t> pixels;
};

absl::StatusOr<Interleaved> DecodePng(absl::string_view bytes, int channels) {
  PngImage png;
  if (png_image_begin_read_from_memory(&png.image, bytes.data(), bytes.size()) == 0) {
    return absl::InvalidArgumentError(absl::StrCat("libpng: ", png.image.message));
  }
  Interleaved result = {png.image.width, png.image.height, {}};
  COTAN_RETURN_IF_ERROR(CheckSize(result.width, result.height));
  png.image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  result.pixels.resize(PNG_IMAGE_SIZE(png.image));
  const png_color black = {0, 0, 0};
  if (png_image_finish_read(&png.image, &black, result.pixels.data(), 0, nullptr) == 0) {
    return absl::InvalidArgumentError(absl::StrCat("libpng: ", png.image.message));
  }
  return result;
}

absl::StatusOr<Interleaved> DecodeJpeg(absl::string_view bytes, int channels) {
  const std::unique_ptr<void, JpegDeleter> handle(tjInitDecompress());
  if (handle == nullptr) return absl::ResourceExhaustedError("libjpeg-turbo has not enough memory");
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  int width = 0, height = 0, subsampling = 0, color_space = 0;
  if (tjDecompressHeader3(handle.get(), data, bytes.size(), &width, &height, &subsampling, &color_space) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("libjpeg-turbo: ", tjGetErrorStr2(handle.get())));
  }
  if (color_space == TJCS_CMYK || color_space == TJCS_YCCK) {
    return absl::InvalidArgumentError("the JPEG file has the colors CMYK or YCCK, for printers; convert it to RGB");
  }
  COTAN_RETURN_IF_ERROR(CheckSize(width, height));
  Interleaved result = {width, height, {}};
  result.pixels.resize(static_cast<size_t>(width) * static_cast<size_t>(height) * static_cast<size_t>(channels));
  // A cut file is a warning of the library, which fills up the image.
  if (tjDecompress2(handle.get(), data, bytes.size(), result.pixels.data(), width, 0, height,
                    channels == 1 ? TJPF_GRAY : TJPF_RGB, TJFLAG_STOPONWARNING | TJFLAG_ACCURATEDCT) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("libjpeg-turbo: ", tjGetErrorStr2(handle.get())));
  }
  return result;
}

Image ByChannel(const Interleaved& from, int channels) {
  Image image = {channels, from.height, from.width, std::vector<uint8_t>(from.pixels.size())};
  const size_t count = from.pixels.size() / static_cast<size_t>(channels);
  for (size_t i = 0; i < from.pixels.size(); ++i) {
    image.pixels[i % static_cast<size_t>(channels) * count + i / static_cast<size_t>(channels)] = from.pixels[i];
  }
  return image;
}

}  // namespace

absl::StatusOr<Image> DecodeImage(absl::string_view bytes, int channels) {
  if (channels != 1 && channels != 3) {
    return absl::InvalidArgumentError(absl::StrCat("channels = ", channels, "; expected 1 or 3"));
  }
  if (!absl::StartsWith(bytes, kPngMagic) && !absl::StartsWith(bytes, kJpegMagic)) {
    return absl::InvalidArgumentError("the file is neither PNG nor JPEG; convert it");
  }
  absl::StatusOr<Interleaved> pixels =
      absl::StartsWith(bytes, kPngMagic) ? DecodePng(bytes, channels) : DecodeJpeg(bytes, channels);
  COTAN_RETURN_IF_ERROR(pixels.status());
  return ByChannel(*pixels, channels);
}

}  // namespace cotan::training
