// SPDX-License-Identifier: Apache-2.0

#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "base/system_error.h"

namespace cotan {
namespace {

absl::Status MappingError(absl::string_view what, size_t size, int error) {
  // EFAULT: reading the page would raise SIGBUS.
  const absl::string_view reason =
      error == EFAULT ? "the file was truncated, or its storage fails" : absl::string_view(std::strerror(error));
  const std::string message = absl::StrCat("cannot ", what, " ", size, " bytes of the file: ", reason);
  return error == ENOMEM ? absl::ResourceExhaustedError(message) : absl::UnavailableError(message);
}

// Reads the pages of a mapping that are not in memory, without making them private.
absl::Status ReadPages(void* data, size_t size) {
  // EINVAL: Linux before 5.14, which reads them when they are used.
  if (::madvise(data, size, MADV_POPULATE_READ) == 0 || errno == EINVAL) return absl::OkStatus();
  return MappingError("read", size, errno);
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Closes a descriptor at the end of a scope.
class ScopedDescriptor {
 public:
  explicit ScopedDescriptor(int file) : file_(file) {}
  ScopedDescriptor(const ScopedDescriptor&) = delete;
  ScopedDescriptor& operator=(const ScopedDescriptor&) = delete;
  ~ScopedDescriptor() {
    if (file_ >= 0) ::close(file_);
  }

 private:
  int file_;
};

bool IsNumber(absl::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == absl::string_view::npos;
}

// Returns whether `entry` of a folder is "<name>.tmp-<process>-<n>".
bool IsTemporaryOf(absl::string_view name, absl::string_view entry) {
  if (!absl::ConsumePrefix(&entry, name) || !absl::ConsumePrefix(&entry, ".tmp-")) return false;
  const size_t dash = entry.find('-');
  return dash != absl::string_view::npos && IsNumber(entry.substr(0, dash)) && IsNumber(entry.substr(dash + 1));
}

// Returns whether `path` is a name of the open `file`.
bool Names(const std::string& path, int file) {
  struct stat at_path, open_file;
  if (::lstat(path.c_str(), &at_path) != 0 || ::fstat(file, &open_file) != 0) return false;
  return at_path.st_dev == open_file.st_dev && at_path.st_ino == open_file.st_ino;
}

// Removes a temporary file unless its writer is alive, which holds a lock on it.
void RemoveIfAbandoned(const std::string& path, FileSystem& files) {
  const int file = ::open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  const ScopedDescriptor closer(file);
  if (file < 0 || ::flock(file, LOCK_EX | LOCK_NB) != 0) return;
  // Its writer may have renamed it before the lock was taken.
  if (Names(path, file)) files.Remove(path);
}

// Removes temporary files of killed writers of `path`.
void RemoveAbandonedTemporaries(const std::string& path, FileSystem& files) {
  const std::string folder = FolderOf(path);
  const std::string name = path.substr(path.rfind('/') + 1);
  DIR* entries = ::opendir(folder.c_str());
  if (entries == nullptr) return;
  while (const dirent* entry = ::readdir(entries)) {
    if (IsTemporaryOf(name, entry->d_name)) RemoveIfAbandoned(absl::StrCat(folder, "/", entry->d_name), files);
  }
  ::closedir(entries);
}

// Locks a new file of this process. Returns false if another process had the lock first and has removed the
// file.
bool LockNew(const std::string& path, int file) {
  int locked = 0;
  do {
    locked = ::flock(file, LOCK_EX);
  } while (locked != 0 && errno == EINTR);
  // If files cannot be locked, no process considers the file abandoned.
  return locked != 0 || Names(path, file);
}

struct TemporaryFile {
  std::string path;
  int file = -1;  // locked until it is closed
};

absl::StatusOr<TemporaryFile> CreateTemporary(const std::string& path, FileSystem& files) {
  static std::atomic<uint64_t> counter = 0;
  for (;;) {
    TemporaryFile temporary;
    temporary.path = absl::StrCat(path, ".tmp-", ::getpid(), "-", counter.fetch_add(1));
    const absl::StatusOr<int> created = files.Create(temporary.path);
    // A process of another PID namespace can have the same number.
    if (absl::IsAlreadyExists(created.status())) continue;
    if (!created.ok()) return created.status();
    temporary.file = *created;
    if (LockNew(temporary.path, temporary.file)) return temporary;
    ::close(temporary.file);
  }
}

absl::Status WriteAndSync(const TemporaryFile& temporary, absl::Span<const absl::string_view> pieces,
                          FileSystem& files) {
  for (absl::string_view piece : pieces) {
    COTAN_RETURN_IF_ERROR(files.Write(temporary.file, piece, temporary.path));
  }
  return files.Sync(temporary.file, temporary.path);
}

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  MappedFile mapped;
  mapped.file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (mapped.file_ < 0) return SystemError("open", path, errno);
  struct stat info;
  if (::fstat(mapped.file_, &info) != 0) return SystemError("examine", path, errno);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("'", path, "' is not a regular file"));
  }
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return mapped;
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, mapped.file_, 0);
  if (data == MAP_FAILED) return SystemError("map", path, errno);
  mapped.data_ = data;
  mapped.size_ = size;
  return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
  if (file_ >= 0) ::close(file_);
}

void MappedFile::Shrink(size_t size) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t kept = (size + page - 1) / page * page;
  if (kept < size_) ::munmap(static_cast<char*>(data_) + kept, size_ - kept);
  size_ = size;
  if (size == 0) data_ = nullptr;
}

void MappedFile::ReleasePages(absl::string_view part) const {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const auto offset = static_cast<size_t>(part.data() - bytes().data());
  const size_t begin = (offset + page - 1) / page * page, end = (offset + part.size()) / page * page;
  // A hint: on an error the pages stay. The mapping is private and read-only, so that no content is lost.
  if (begin < end) ::madvise(static_cast<char*>(data_) + begin, end - begin, MADV_DONTNEED);
}

absl::StatusOr<std::shared_ptr<char>> MappedFile::CopyOnWrite(absl::string_view part) const {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const auto offset = static_cast<size_t>(part.data() - bytes().data());
  const size_t begin = offset / page * page, size = offset + part.size() - begin;
  // Without a reserve: most pages are never written.
  void* const data =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file_, static_cast<off_t>(begin));
  if (data == MAP_FAILED) return MappingError("map", size, errno);
  std::shared_ptr<char> copy(static_cast<char*>(data) + (offset - begin),
                             [data, size](char*) { ::munmap(data, size); });
  COTAN_RETURN_IF_ERROR(ReadPages(data, size));
  return copy;
}

absl::StatusOr<int> FileSystem::Create(const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) return SystemError("write", path, errno);
  return file;
}

absl::Status FileSystem::Write(int file, absl::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemError("write", path, errno);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status FileSystem::Sync(int file, const std::string& path) {
  // Pipes and some file systems do not support fsync().
  if (::fsync(file) == 0 || errno == EINVAL || errno == ENOTSUP) return absl::OkStatus();
  return SystemError("sync", path, errno);
}

absl::Status FileSystem::Close(int file, const std::string& path) {
  if (::close(file) == 0 || errno == EINTR) return absl::OkStatus();
  return SystemError("close", path, errno);
}

absl::Status FileSystem::Rename(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  return SystemError("replace", to, errno);
}

absl::Status FileSystem::SyncFolder(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return SystemError("open folder", path, errno);
  const ScopedDescriptor closer(file);
  return Sync(file, path);
}

void FileSystem::Remove(const std::string& path) { ::unlink(path.c_str()); }

FileSystem& SystemFiles() {
  static FileSystem& files = *new FileSystem;
  return files;
}

absl::Status WriteFileAtomically(const std::string& path, absl::Span<const absl::string_view> pieces,
                                 FileSystem& files) {
  RemoveAbandonedTemporaries(path, files);
  COTAN_ASSIGN_OR_RETURN(const TemporaryFile temporary, CreateTemporary(path, files));
  absl::Status status = WriteAndSync(temporary, pieces, files);
  if (status.ok()) status = files.Rename(temporary.path, path);
  if (!status.ok()) files.Remove(temporary.path);
  // Closing releases the lock; the temporary name no longer exists.
  const absl::Status closed = files.Close(temporary.file, path);
  if (!status.ok()) return status;
  COTAN_RETURN_IF_ERROR(closed);
  return files.SyncFolder(FolderOf(path));
}

}  // namespace cotan
