// The files inside a .pt2 archive: a zip of uncompressed files.
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

// An open archive. If all files lie in one folder, names are counted from it.
// Any input is safe. Movable; not thread-safe.
class Archive {
 public:
  // Errors of MappedFile::Open(). InvalidArgument: it is no zip archive or a
  // damaged one; a name is absolute, leads outside ("..") or occurs twice; a
  // file is compressed or encrypted, which torch.export never writes; files
  // claim more bytes than the archive has. Every message names `path`.
  static absl::StatusOr<Archive> Open(const std::string& path);
  // The same for an archive in memory, which outlives the object; `name` is for
  // messages.
  static absl::StatusOr<Archive> FromBytes(absl::string_view bytes, const std::string& name);

  // Names in the order of the archive, folders left out.
  const std::vector<std::string>& names() const { return names_; }
  bool Has(absl::string_view name) const { return entries_.contains(name); }

  // The content of a file, its checksum verified.
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
