// SPDX-License-Identifier: Apache-2.0

#include "aot/cache/compile_cache.h"

#include <array>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "aot/cache/digest.h"
#include "base/file.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

constexpr absl::string_view kMagic = "cotan compile cache 1\n";

std::string DigestOf(absl::string_view key, absl::string_view content) {
  return Digest().Add("key", key).Add("content", content).Hex();
}

std::string HeaderOf(absl::string_view key, absl::string_view content) {
  return absl::StrCat(kMagic, key, "\n", DigestOf(key, content), "\n");
}

// Returns the content of an entry. DataLoss: the entry is invalid.
absl::StatusOr<absl::string_view> ContentOf(absl::string_view key, absl::string_view entry) {
  if (!absl::ConsumePrefix(&entry, kMagic)) return absl::DataLossError("it is not an entry of this version");
  if (!absl::ConsumePrefix(&entry, absl::StrCat(key, "\n"))) {
    return absl::DataLossError("it is the entry of another key");
  }
  const size_t digest_size = DigestOf("", "").size() + 1;
  if (entry.size() < digest_size) return absl::DataLossError("it is truncated");
  const absl::string_view content = entry.substr(digest_size);
  if (entry.substr(0, digest_size) != absl::StrCat(DigestOf(key, content), "\n")) {
    return absl::DataLossError("its content does not match its digest");
  }
  return content;
}

}  // namespace

absl::string_view CacheOutcomeName(CacheOutcome::Kind kind) {
  constexpr std::array<absl::string_view, 5> kNames = {"disabled", "bypassed", "hit", "miss", "damaged"};
  return kNames[static_cast<size_t>(kind)];
}

absl::StatusOr<CompileCache> CompileCache::Open(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) return CompileCache(folder);
  const std::string message = absl::StrCat("compile cache '", folder, "': ", error.message());
  if (error == std::errc::permission_denied || error == std::errc::read_only_file_system) {
    return absl::PermissionDeniedError(message);
  }
  if (error == std::errc::no_space_on_device) return absl::ResourceExhaustedError(message);
  return absl::UnavailableError(message);
}

std::string CompileCache::PathOf(const std::string& key) const { return absl::StrCat(folder_, "/", key, ".entry"); }

std::string CompileCache::Find(const std::string& key, CacheOutcome& outcome) const {
  const absl::StatusOr<MappedFile> file = MappedFile::Open(PathOf(key));
  if (absl::IsNotFound(file.status())) {
    outcome = {CacheOutcome::Kind::kMiss, ""};
    return "";
  }
  const absl::StatusOr<absl::string_view> content = file.ok() ? ContentOf(key, file->bytes()) : file.status();
  if (!content.ok()) {
    outcome = {CacheOutcome::Kind::kDamaged, absl::StrCat(PathOf(key), ": ", content.status().message())};
    return "";
  }
  outcome = {CacheOutcome::Kind::kHit, ""};
  return std::string(*content);
}

absl::Status CompileCache::Store(const std::string& key, absl::string_view content) const {
  const std::string header = HeaderOf(key, content);
  const std::array<absl::string_view, 2> pieces = {header, content};
  return WriteFileAtomically(PathOf(key), pieces);
}

}  // namespace cotan::aot
