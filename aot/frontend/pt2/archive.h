// SPDX-License-Identifier: Apache-2.0

// Reads the files inside a .pt2 archive: a zip of uncompressed files.
//
//   COTAN_ASSIGN_OR_RETURN(Archive archive, Archive::Open("m.pt2"));
//   COTAN_ASSIGN_OR_RETURN(std::string json, archive.Read("models/model.json"));
#ifndef COTAN_AOT_FRONTEND_PT2_ARCHIVE_H_
#define COTAN_AOT_FRONTEND_PT2_ARCHIVE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file.h"

struct zip;

namespace cotan::aot::pt2 {

// An open archive. Names are relative to the folder that contains all files, if there is one. Safe
// for any input. Movable; not thread-safe.
class Archive {
 public:
  // Opens an archive file.
  // Errors of MappedFile::Open(). InvalidArgument: the file is not a zip archive, or damaged; a
  // name is absolute, leads outside ("..") or occurs twice; a file is compressed or encrypted,
  // which torch.export never writes; files claim more bytes than the archive has.
  // ResourceExhausted: there is not enough memory. Every message has `path`.
  static absl::StatusOr<Archive> Open(const std::string& path);
  // Opens an archive in memory, borrowed for the lifetime of the object. `name` replaces the path
  // in messages. InvalidArgument, ResourceExhausted: as for Open().
  static absl::StatusOr<Archive> FromBytes(absl::string_view bytes, const std::string& name);

  // Returns the names of all files in the order of the archive, without folders.
  const std::vector<std::string>& names() const { return names_; }
  // Returns whether the archive has the file.
  bool Has(absl::string_view name) const { return entries_.contains(name); }

  // Returns the content of a file and verifies its checksum.
  // NotFound: no such file. InvalidArgument: the content is damaged.
  absl::StatusOr<std::string> Read(absl::string_view name) const;

 private:
  struct Close {
    void operator()(zip* archive) const;
  };
  struct Entry {
    uint64_t index = 0;  // in the zip
    uint64_t size = 0;   // bytes
  };

  Archive() = default;
  absl::Status ReadDirectory(uint64_t archive_size);
  void StripFolder();

  std::string path_;
  MappedFile file_;  // empty if the bytes belong to the caller
  std::unique_ptr<zip, Close> zip_;
  std::vector<std::string> names_;
  absl::flat_hash_map<std::string, Entry> entries_;
};

}  // namespace cotan::aot::pt2

#endif  // COTAN_AOT_FRONTEND_PT2_ARCHIVE_H_
