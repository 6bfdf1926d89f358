// Files as this project needs them: read whole through a mapping, written
// whole or not at all.
#ifndef COTAN_BASE_FILE_H_
#define COTAN_BASE_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace cotan {

// A file's bytes, mapped read-only into memory. Movable. The file may be
// replaced (renamed over) or deleted meanwhile, but must not be shortened in
// place: touching a page that is gone kills the process.
class MappedFile {
 public:
  // NotFound: no such file. PermissionDenied. InvalidArgument: not a regular
  // file. Unavailable: another error of the system. The message names `path`.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  absl::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }
  // Unmaps what follows the first `size` bytes, which is at most all of it.
  void Shrink(size_t size);

 private:
  MappedFile(void* data, size_t size) : data_(data), size_(size) {}
  void* data_ = nullptr;
  size_t size_ = 0;
};

// The system calls of WriteFileAtomically(), so that tests can fail or stop at
// any of them. Errors: ResourceExhausted (disk full, quota), PermissionDenied,
// NotFound (no such folder), AlreadyExists, Unavailable (another error); messages
// name the path and the system's reason. Thread-safe.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Creates a file and opens it for writing. AlreadyExists: there is one.
  virtual absl::StatusOr<int> Create(const std::string& path);
  // Writes all of `bytes` at the end of the file; `path` is for messages.
  virtual absl::Status Write(int file, absl::string_view bytes, const std::string& path);
  // Returns when the content is on the disk.
  virtual absl::Status Sync(int file, const std::string& path);
  virtual absl::Status Close(int file, const std::string& path);
  virtual absl::Status Rename(const std::string& from, const std::string& to);
  // Returns when the folder's entries are on the disk.
  virtual absl::Status SyncFolder(const std::string& path);
  // Deletes a file; not being able to is no error.
  virtual void Remove(const std::string& path);
};

// The one of the system. Never destroyed.
FileSystem& SystemFiles();

// Makes `path` a file with the concatenation of `pieces`. At every moment,
// also after a crash or loss of power, `path` is either what it was or the
// whole new file: the bytes go to "<path>.tmp-<process>-<n>" in the same
// folder, are synced and renamed, and the folder is synced. That temporary
// file is removed on failure. A killed process leaves it behind: the next call
// for the same `path` removes it. The writer holds a lock (flock) on its temporary
// file, so any number of processes and threads may write one `path` at once: none
// removes the file of another that is alive. This needs a file system whose locks
// all writers see; where files cannot be locked, nothing is removed.
// Errors as FileSystem's, except AlreadyExists.
absl::Status WriteFileAtomically(const std::string& path, absl::Span<const absl::string_view> pieces,
                                 FileSystem& files = SystemFiles());

}  // namespace cotan

#endif  // COTAN_BASE_FILE_H_
