#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace cotan {
namespace {

absl::Status SystemError(absl::string_view what, const std::string& path, int error) {
  const std::string message = absl::StrCat("cannot ", what, " '", path, "': ", std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::UnavailableError(message);
  }
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

absl::Status WriteAndClose(const std::string& path, absl::Span<const absl::string_view> pieces, FileSystem& files) {
  COTAN_ASSIGN_OR_RETURN(const int file, files.Create(path));
  absl::Status status;
  for (absl::string_view piece : pieces) {
    status = files.Write(file, piece, path);
    if (!status.ok()) break;
  }
  if (status.ok()) status = files.Sync(file, path);
  const absl::Status closed = files.Close(file, path);
  return status.ok() ? closed : status;
}

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return SystemError("open", path, errno);
  const ScopedDescriptor closer(file);
  struct stat info;
  if (::fstat(file, &info) != 0) return SystemError("examine", path, errno);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("'", path, "' is not a regular file"));
  }
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return MappedFile();
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  if (data == MAP_FAILED) return SystemError("map", path, errno);
  return MappedFile(data, size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

absl::StatusOr<int> FileSystem::Create(const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
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
  // Pipes and some file systems cannot sync; there is nothing to wait for then.
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
  static std::atomic<uint64_t> counter = 0;
  const std::string temporary = absl::StrCat(path, ".tmp-", ::getpid(), "-", counter.fetch_add(1));
  absl::Status status = WriteAndClose(temporary, pieces, files);
  if (status.ok()) status = files.Rename(temporary, path);
  if (!status.ok()) {
    files.Remove(temporary);
    return status;
  }
  return files.SyncFolder(FolderOf(path));
}

}  // namespace cotan
