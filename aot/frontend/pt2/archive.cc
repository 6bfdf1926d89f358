// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/pt2/archive.h"

#include <zip.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace cotan::aot::pt2 {
namespace {

std::string ReasonOf(zip_error_t& error) {
  const std::string reason = zip_error_strerror(&error);
  zip_error_fini(&error);
  return reason;
}

// Returns why a name is invalid for a file in an archive; empty if it is valid.
absl::string_view NameProblem(absl::string_view name) {
  if (name.empty()) return "an empty name";
  if (name.front() == '/') return "an absolute name";
  if (name.find('\\') != absl::string_view::npos) return "a backslash in its name";
  for (const char c : name) {
    if (static_cast<unsigned char>(c) < 0x20) return "a control character in its name";
  }
  for (const absl::string_view part : absl::StrSplit(name, '/')) {
    if (part == ".." || part == ".") return "a name that leads elsewhere ('.' or '..')";
  }
  return "";
}

// Returns why a file in an archive cannot be read; empty if it can.
absl::string_view StorageProblem(const zip_stat_t& stat) {
  constexpr zip_uint64_t kNeeded = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_INDEX;
  if ((stat.valid & kNeeded) != kNeeded) return "an incomplete entry";
  if ((stat.valid & ZIP_STAT_ENCRYPTION_METHOD) != 0 && stat.encryption_method != ZIP_EM_NONE) return "encryption";
  if (stat.comp_method != ZIP_CM_STORE) {
    return "compression, which torch.export does not use: unpack it and pack it again uncompressed (zip -0)";
  }
  if (stat.comp_size != stat.size) return "two different sizes";
  return "";
}

}  // namespace

void Archive::Close::operator()(zip* archive) const { zip_discard(archive); }

absl::StatusOr<Archive> Archive::Open(const std::string& path) {
  COTAN_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  COTAN_ASSIGN_OR_RETURN(Archive archive, FromBytes(file.bytes(), path));
  archive.file_ = std::move(file);
  return archive;
}

absl::StatusOr<Archive> Archive::FromBytes(absl::string_view bytes, const std::string& name) {
  // libzip opens an empty file as an archive without files.
  if (bytes.empty()) return absl::InvalidArgumentError(absl::StrCat(name, " is not a .pt2 archive: it is empty"));
  Archive archive;
  archive.path_ = name;
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), /*freep=*/0, &error);
  if (source == nullptr) return absl::ResourceExhaustedError(absl::StrCat(name, ": ", ReasonOf(error)));
  archive.zip_.reset(zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error));
  if (archive.zip_ == nullptr) {
    zip_source_free(source);
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is not a .pt2 archive, or a damaged one: ", ReasonOf(error)));
  }
  COTAN_RETURN_IF_ERROR(archive.ReadDirectory(bytes.size()));
  archive.StripFolder();
  return archive;
}

absl::Status Archive::ReadDirectory(uint64_t archive_size) {
  const zip_int64_t count = zip_get_num_entries(zip_.get(), 0);
  uint64_t total = 0;
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t stat;
    if (zip_stat_index(zip_.get(), static_cast<zip_uint64_t>(i), ZIP_FL_ENC_RAW, &stat) != 0 || stat.name == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ": entry ", i, ": ", zip_strerror(zip_.get())));
    }
    const std::string name = stat.name;
    if (const absl::string_view problem = NameProblem(name); !problem.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ": entry ", i, " has ", problem));
    }
    if (absl::EndsWith(name, "/")) continue;
    if (const absl::string_view problem = StorageProblem(stat); !problem.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ": '", name, "' has ", problem));
    }
    if (stat.size > archive_size - total) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ": '", name,
                                                     "' and the files before it claim more than the ", archive_size,
                                                     " bytes that the archive has"));
    }
    total += stat.size;
    if (!entries_.emplace(name, Entry{static_cast<uint64_t>(i), stat.size}).second) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ": '", name, "' occurs twice"));
    }
    names_.push_back(name);
  }
  return absl::OkStatus();
}

// Makes names relative to the folder that contains all files, if there is one.
void Archive::StripFolder() {
  if (names_.empty()) return;
  const size_t slash = names_.front().find('/');
  if (slash == std::string::npos) return;
  const std::string folder = names_.front().substr(0, slash + 1);
  for (const std::string& name : names_) {
    if (!absl::StartsWith(name, folder)) return;
  }
  absl::flat_hash_map<std::string, Entry> entries;
  for (std::string& name : names_) {
    const Entry entry = entries_.at(name);
    name.erase(0, folder.size());
    entries.emplace(name, entry);
  }
  entries_ = std::move(entries);
}

absl::StatusOr<std::string> Archive::Read(absl::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    return absl::NotFoundError(absl::StrCat(path_, ": there is no '", name, "' in it"));
  }
  const auto damaged = [&](absl::string_view reason) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": '", name, "' is damaged: ", reason));
  };
  zip_file_t* const file = zip_fopen_index(zip_.get(), found->second.index, 0);
  if (file == nullptr) return damaged(zip_strerror(zip_.get()));
  std::string content(found->second.size, '\0');
  const zip_int64_t got = zip_fread(file, content.data(), content.size());
  // libzip verifies the checksum at the end of the file.
  char past_end;
  const zip_int64_t more = got < 0 ? 0 : zip_fread(file, &past_end, 1);
  const std::string reason = zip_file_strerror(file);
  zip_fclose(file);
  if (got < 0 || more < 0) return damaged(reason);
  if (static_cast<uint64_t>(got) != content.size() || more != 0) return damaged("it has another size than it says");
  return content;
}

}  // namespace cotan::aot::pt2
