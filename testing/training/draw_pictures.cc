// SPDX-License-Identifier: Apache-2.0

// usage: draw_pictures IMAGES LABELS FOLDER
// Writes the digits of two IDX files as FOLDER/digit<label>/<number>.png, every second one as .jpg.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "runtime/training/images/test_images.h"

namespace {

constexpr int kSide = 28;
constexpr size_t kPixels = kSide * kSide;
constexpr size_t kImagesHeader = 16, kLabelsHeader = 8;  // bytes

std::string ImageFile(absl::string_view gray, bool is_png) {
  std::vector<uint8_t> pixels;
  for (const char value : gray) pixels.insert(pixels.end(), 3, static_cast<uint8_t>(value));
  return is_png ? cotan::training::testing::PngFile(pixels, kSide, kSide)
                : cotan::training::testing::JpegFile(pixels, kSide, kSide);
}

absl::Status Draw(const std::string& images_path, const std::string& labels_path, const std::string& folder) {
  COTAN_ASSIGN_OR_RETURN(const cotan::MappedFile images, cotan::MappedFile::Open(images_path));
  COTAN_ASSIGN_OR_RETURN(const cotan::MappedFile labels, cotan::MappedFile::Open(labels_path));
  if (images.bytes().size() < kImagesHeader || labels.bytes().size() < kLabelsHeader) {
    return absl::InvalidArgumentError("the files have no IDX headers");
  }
  const absl::string_view pixels = images.bytes().substr(kImagesHeader), digits = labels.bytes().substr(kLabelsHeader);
  if (pixels.size() != kPixels * digits.size())
    return absl::InvalidArgumentError("another number of images and labels");
  for (size_t i = 0; i < digits.size(); ++i) {
    const std::string subfolder = absl::StrCat(folder, "/digit", static_cast<int>(digits[i]));
    std::error_code error;
    std::filesystem::create_directories(subfolder, error);
    const bool is_png = i % 2 == 0;
    std::ofstream file(absl::StrCat(subfolder, "/", i, is_png ? ".png" : ".jpg"), std::ios::binary);
    file << ImageFile(pixels.substr(kPixels * i, kPixels), is_png);
    if (!file.flush()) return absl::UnavailableError(absl::StrCat("cannot write to '", subfolder, "'"));
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const absl::Status status = Draw(argv[1], argv[2], argv[3]);
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
