// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/compiler/kernel_cache.h"

#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/status_macros.h"

namespace cotan::cuda {
namespace {

// Begins every file; then the lengths of text and image and the CRC-32C of both, a line feed, the text, the image.
constexpr absl::string_view kMagic = "cotan kernel 1 ";

std::string HeaderOf(absl::string_view text, absl::string_view image) {
  return absl::StrCat(kMagic, text.size(), " ", image.size(), " ", absl::Hex(Crc32c(text), absl::kZeroPad8),
                      absl::Hex(Crc32c(image), absl::kZeroPad8), "\n");
}

absl::Status MakeFolders(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string folder = path.substr(0, end);
    if (mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot create the folder '", folder, "' of compiled kernels"));
    }
    if (end == std::string::npos) return absl::OkStatus();
  }
}

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string KernelCache::DefaultFolder() {
  if (std::string folder = Environment("COTAN_KERNEL_CACHE"); !folder.empty()) return folder;
  if (std::string folder = Environment("XDG_CACHE_HOME"); !folder.empty()) return folder + "/cotan/kernels";
  if (std::string folder = Environment("HOME"); !folder.empty()) return folder + "/.cache/cotan/kernels";
  return "";
}

std::string KernelCache::PathOf(absl::string_view text, const nvrtc::CompileTarget& target) const {
  return absl::StrCat(folder_, "/", absl::Hex(Crc32c(text), absl::kZeroPad8), "-", text.size(),
                      target.kind == nvrtc::ImageKind::kPtx ? "-compute_" : "-sm_", target.compute_capability);
}

std::optional<std::string> KernelCache::Find(absl::string_view text, const nvrtc::CompileTarget& target) const {
  if (folder_.empty()) return std::nullopt;
  const absl::StatusOr<MappedFile> file = MappedFile::Open(PathOf(text, target));
  if (!file.ok()) return std::nullopt;
  const absl::string_view bytes = file->bytes();
  const size_t header = bytes.find('\n');
  if (header == absl::string_view::npos || header + 1 + text.size() > bytes.size()) return std::nullopt;
  if (bytes.substr(header + 1, text.size()) != text) return std::nullopt;
  const absl::string_view image = bytes.substr(header + 1 + text.size());
  if (bytes.substr(0, header + 1) != HeaderOf(text, image)) return std::nullopt;
  return std::string(image);
}

absl::Status KernelCache::Store(absl::string_view text, const nvrtc::CompileTarget& target,
                                absl::string_view image) const {
  if (folder_.empty()) return absl::OkStatus();
  COTAN_RETURN_IF_ERROR(MakeFolders(folder_));
  const std::string header = HeaderOf(text, image);
  return WriteFileAtomically(PathOf(text, target), {header, text, image});
}

}  // namespace cotan::cuda
