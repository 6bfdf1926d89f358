// SPDX-License-Identifier: Apache-2.0

// File access: whole files are read through a mapping and written atomically.
#ifndef COTAN_BASE_FILE_H_
#define COTAN_BASE_FILE_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace cotan {

// A file's bytes, mapped read-only into memory. Movable. Holds one descriptor. While it is mapped, a file of a local
// disk may be replaced (renamed over) or deleted, but must not be written or truncated in place: the system may drop
// pages and read them again, with the new content then. A page that cannot be read raises SIGBUS: beyond the end of the
// file, on a disk that fails or was removed, and on network storage that does not answer or where another host has
// replaced or deleted the file.
class MappedFile {
 public:
  // Maps the file at `path`. NotFound: no such file. PermissionDenied. InvalidArgument: not a regular file.
  // Unavailable: another error of the system. The message names `path`.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  absl::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }
  // Unmaps everything after the first `size` bytes; `size` is at most bytes().size().
  void Shrink(size_t size);
  // Lets the system take back the memory of whole pages within `part`, a part of bytes(). They are read from the file
  // again when they are used. Thread-safe.
  void ReleasePages(absl::string_view part) const;
  // Returns a writable copy of `part`, a part of bytes() that is not empty. Its pages have been read (by Linux before
  // 5.14: are read when they are used), and are shared with all mappings of the file until they are written; the file
  // is never written. The copy has the alignment of `part` up to the size of a page. It may outlive this object, but is
  // bound to the same rules about changes of the file. Thread-safe. ResourceExhausted: out of memory. Unavailable: the
  // file cannot be read, or another error of the system.
  absl::StatusOr<std::shared_ptr<char>> CopyOnWrite(absl::string_view part) const;

 private:
  int file_ = -1;  // descriptor; -1: none
  void* data_ = nullptr;
  size_t size_ = 0;
};

// The system calls of WriteFileAtomically(); tests replace them to inject failures. Errors:
// ResourceExhausted (disk full, quota), PermissionDenied, NotFound (no such folder), AlreadyExists,
// Unavailable (another error); messages name the path and the system's reason. Thread-safe.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Creates a file and opens it for writing. AlreadyExists: the file exists.
  virtual absl::StatusOr<int> Create(const std::string& path);
  // Appends all of `bytes` to the file; `path` is for messages.
  virtual absl::Status Write(int file, absl::string_view bytes, const std::string& path);
  // Returns when the content is on the disk.
  virtual absl::Status Sync(int file, const std::string& path);
  virtual absl::Status Close(int file, const std::string& path);
  virtual absl::Status Rename(const std::string& from, const std::string& to);
  // Returns when the folder's entries are on the disk.
  virtual absl::Status SyncFolder(const std::string& path);
  // Deletes a file; failures are ignored.
  virtual void Remove(const std::string& path);
};

// Returns the operating system's file system. Never destroyed.
FileSystem& SystemFiles();

// Writes the concatenation of `pieces` to a file at `path`. At every moment, also after a crash or loss of power,
// `path` is either the old file or the whole new one: the bytes go to "<path>.tmp-<process>-<n>" in the same folder,
// are synced and renamed, and the folder is synced. The temporary file is removed on failure. If the process is killed,
// it remains until the next call for the same `path` removes it. The writer holds a lock (flock) on its temporary file,
// so any number of processes and threads may write one `path` at once: none removes the file of another live writer.
// This needs a file system whose locks all writers see; where files cannot be locked, nothing is removed.
// Errors of FileSystem, except AlreadyExists.
absl::Status WriteFileAtomically(const std::string& path, absl::Span<const absl::string_view> pieces,
                                 FileSystem& files = SystemFiles());

}  // namespace cotan

#endif  // COTAN_BASE_FILE_H_
