#include "base/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace cotan {
namespace {

std::string TestPath(absl::string_view name) { return absl::StrCat(::testing::TempDir(), "/", name); }

std::string ReadAll(const std::string& path) {
  absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  return file.ok() ? std::string(file->bytes()) : file.status().ToString();
}

TEST(FileTest, WrittenPiecesAreReadBackAsOne) {
  const std::string path = TestPath("pieces");
  ASSERT_TRUE(WriteFileAtomically(path, {"one,", "", "two"}).ok());
  EXPECT_EQ(ReadAll(path), "one,two");
}

TEST(FileTest, AnEmptyFileHasNoBytes) {
  const std::string path = TestPath("empty");
  ASSERT_TRUE(WriteFileAtomically(path, {}).ok());
  EXPECT_EQ(ReadAll(path), "");
}

TEST(FileTest, AMappingOutlivesTheFilesReplacement) {
  const std::string path = TestPath("replaced");
  ASSERT_TRUE(WriteFileAtomically(path, {"old"}).ok());
  absl::StatusOr<MappedFile> old = MappedFile::Open(path);
  ASSERT_TRUE(old.ok());
  ASSERT_TRUE(WriteFileAtomically(path, {"new!"}).ok());
  MappedFile moved = *std::move(old);
  EXPECT_EQ(moved.bytes(), "old");
  EXPECT_EQ(ReadAll(path), "new!");
}

TEST(FileTest, MissingFileAndFolderAreNamed) {
  const absl::Status read = MappedFile::Open(TestPath("absent")).status();
  EXPECT_EQ(read.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(read.message().find("absent"), absl::string_view::npos) << read;
  const absl::Status write = WriteFileAtomically(TestPath("no/such/folder"), {"x"});
  EXPECT_EQ(write.code(), absl::StatusCode::kNotFound) << write;
}

TEST(FileTest, AFolderIsNoFile) {
  EXPECT_EQ(MappedFile::Open(::testing::TempDir()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(FileTest, AFullDiskIsResourceExhausted) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full";
  absl::StatusOr<int> file = SystemFiles().Create("/dev/full");
  ASSERT_TRUE(file.ok());
  const absl::Status status = SystemFiles().Write(*file, "x", "/dev/full");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  ASSERT_TRUE(SystemFiles().Close(*file, "/dev/full").ok());
}

// Fails the call number `fail_at`, counted over all calls.
class FailingFiles : public FileSystem {
 public:
  explicit FailingFiles(int fail_at) : left_(fail_at) {}
  absl::StatusOr<int> Create(const std::string& path) override {
    if (Fails()) return Error();
    return FileSystem::Create(path);
  }
  absl::Status Write(int file, absl::string_view bytes, const std::string& path) override {
    return Fails() ? Error() : FileSystem::Write(file, bytes, path);
  }
  absl::Status Sync(int file, const std::string& path) override {
    return Fails() ? Error() : FileSystem::Sync(file, path);
  }
  absl::Status Close(int file, const std::string& path) override {
    const absl::Status closed = FileSystem::Close(file, path);
    return Fails() ? Error() : closed;
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return Fails() ? Error() : FileSystem::Rename(from, to);
  }
  bool failed() const { return left_ < 0; }

 private:
  bool Fails() { return left_-- == 0; }
  static absl::Status Error() { return absl::ResourceExhaustedError("injected"); }
  int left_;
};

TEST(FileTest, EveryFailureLeavesTheOldFileAndNoOther) {
  const std::string folder = TestPath("failing");
  ::mkdir(folder.c_str(), 0777);
  const std::string path = folder + "/file";
  ASSERT_TRUE(WriteFileAtomically(path, {"old"}).ok());
  int fail_at = 0;
  for (;; ++fail_at) {
    FailingFiles files(fail_at);
    const absl::Status status = WriteFileAtomically(path, {"a", "b"}, files);
    if (!files.failed()) {
      EXPECT_TRUE(status.ok()) << status;
      break;
    }
    if (ReadAll(path) == "old") {
      EXPECT_EQ(status.message(), "injected") << fail_at;
    } else {
      EXPECT_EQ(ReadAll(path), "ab") << fail_at;  // renamed; the folder's sync failed
    }
  }
  EXPECT_GE(fail_at, 6);
  ASSERT_EQ(::unlink(path.c_str()), 0);
  EXPECT_EQ(::rmdir(folder.c_str()), 0) << "temporary files are left";
}

}  // namespace
}  // namespace cotan
