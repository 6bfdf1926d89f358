// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/images/image_dataset.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "runtime/training/images/image_decoder.h"

namespace cotan::training {
namespace {

namespace fs = std::filesystem;

absl::Status SystemError(const std::string& path, const std::error_code& error) {
  const std::string message = absl::StrCat("cannot read folder '", path, "': ", error.message());
  if (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory) {
    return absl::NotFoundError(message);
  }
  if (error == std::errc::permission_denied) return absl::PermissionDeniedError(message);
  return absl::UnavailableError(message);
}

// Returns the paths of the entries of a folder, sorted by name: folders, or everything else.
absl::StatusOr<std::vector<std::string>> Entries(const std::string& folder, bool folders) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;  // an entry that cannot be examined is not a folder; reading it gives the reason
    const bool is_hidden = entry->path().filename().string().front() == '.';
    if (!is_hidden && entry->is_directory(ignored) == folders) paths.push_back(entry->path().string());
  }
  if (error) return SystemError(folder, error);
  std::sort(paths.begin(), paths.end());
  return paths;
}

absl::StatusOr<Image> ReadImage(const std::string& path, int channels) {
  COTAN_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  absl::StatusOr<Image> image = DecodeImage(file.bytes(), channels);
  if (image.ok()) return image;
  return absl::Status(image.status().code(), absl::StrCat(path, ": ", image.status().message()));
}

// Images of one size.
class ImageList {
 public:
  absl::Status Add(const std::string& path, int channels, int64_t target) {
    COTAN_ASSIGN_OR_RETURN(const Image image, ReadImage(path, channels));
    if (targets_.empty()) {
      first_ = path;
      sizes_ = {image.channels, image.height, image.width};
    }
    if (image.height != sizes_[1] || image.width != sizes_[2]) {
      return absl::InvalidArgumentError(absl::StrCat(path, " has ", image.width, " x ", image.height, " pixels, but ",
                                                     first_, " has ", sizes_[2], " x ", sizes_[1],
                                                     "; scale all images to one size"));
    }
    pixels_.insert(pixels_.end(), image.pixels.begin(), image.pixels.end());
    targets_.push_back(target);
    return absl::OkStatus();
  }

  absl::StatusOr<Dataset> Finish() const {
    const auto count = static_cast<int64_t>(targets_.size());
    std::vector<Column> columns(2);
    columns[0].name = "inputs";
    columns[1].name = "targets";
    COTAN_ASSIGN_OR_RETURN(columns[0].values, Tensor::From<uint8_t>(pixels_, {count, sizes_[0], sizes_[1], sizes_[2]}));
    COTAN_ASSIGN_OR_RETURN(columns[1].values, Tensor::From<int64_t>(targets_, {count}));
    return Dataset::Create(std::move(columns));
  }

  bool empty() const { return targets_.empty(); }

 private:
  std::string first_;
  std::vector<int64_t> sizes_ = {0, 0, 0};  // channels, height, width
  std::vector<uint8_t> pixels_;
  std::vector<int64_t> targets_;
};

}  // namespace

absl::StatusOr<ImageFolder> ReadImageFolder(const std::string& folder, int channels) {
  COTAN_ASSIGN_OR_RETURN(const std::vector<std::string> folders, Entries(folder, /*folders=*/true));
  std::vector<std::string> classes;
  ImageList images;
  for (const std::string& path : folders) {
    COTAN_ASSIGN_OR_RETURN(const std::vector<std::string> files, Entries(path, /*folders=*/false));
    const auto target = static_cast<int64_t>(classes.size());
    for (const std::string& file : files) COTAN_RETURN_IF_ERROR(images.Add(file, channels, target));
    classes.push_back(fs::path(path).filename().string());
  }
  if (images.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", folder, "' has no images in subfolders; expected a subfolder for each class"));
  }
  COTAN_ASSIGN_OR_RETURN(Dataset data, images.Finish());
  return ImageFolder{std::move(data), std::move(classes)};
}

}  // namespace cotan::training
