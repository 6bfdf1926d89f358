// SPDX-License-Identifier: Apache-2.0

#include "base/file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

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

// Returns the kilobytes of files that are in this process's memory.
int64_t ResidentKilobytesOfFiles() {
  std::ifstream status("/proc/self/status");
  std::string word;
  int64_t kilobytes = 0;
  while (status >> word && word != "RssFile:") {
  }
  status >> kilobytes;
  return kilobytes;
}

TEST(FileTest, ReleasedPagesAreNotInMemoryUntilTheyAreUsed) {
  const std::string path = TestPath("released");
  const std::string content(8 << 20, 'x');
  ASSERT_TRUE(WriteFileAtomically(path, {content}).ok());
  absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->bytes(), content);
  const int64_t before = ResidentKilobytesOfFiles();
  file->ReleasePages(file->bytes().substr(100, 200));  // no whole page
  file->ReleasePages(file->bytes().substr(100, 6 << 20));
  EXPECT_LT(ResidentKilobytesOfFiles(), before - 5 * 1024);
  EXPECT_EQ(file->bytes(), content);
}

TEST(FileTest, WritesToACopyOnWriteStayInIt) {
  const std::string path = TestPath("copied");
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const std::string content = std::string(page + 64, 'x') + std::string(2 * page, 'y');
  ASSERT_TRUE(WriteFileAtomically(path, {content}).ok());
  std::shared_ptr<char> first, second;
  {
    absl::StatusOr<MappedFile> file = MappedFile::Open(path);
    ASSERT_TRUE(file.ok());
    const absl::string_view part = file->bytes().substr(page + 64);
    first = *file->CopyOnWrite(part);
    second = *file->CopyOnWrite(part);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first.get()) % page, 64);
    first.get()[0] = first.get()[2 * page - 1] = 'z';
    EXPECT_EQ(file->bytes(), content);
  }
  EXPECT_EQ(std::string(first.get(), 2 * page), "z" + std::string(2 * page - 2, 'y') + "z");
  EXPECT_EQ(std::string(second.get(), 2 * page), std::string(2 * page, 'y'));
  EXPECT_EQ(ReadAll(path), content);
}

int OpenDescriptors() {
  const std::filesystem::directory_iterator entries("/proc/self/fd");
  return static_cast<int>(std::distance(begin(entries), end(entries)));
}

TEST(FileTest, AMappingClosesItsDescriptor) {
  const std::string path = TestPath("closed");
  ASSERT_TRUE(WriteFileAtomically(path, {"x"}).ok());
  ASSERT_TRUE(WriteFileAtomically(path + "_empty", {}).ok());
  const int before = OpenDescriptors();
  {
    MappedFile file = *MappedFile::Open(path);
    EXPECT_EQ(OpenDescriptors(), before + 1);
    file = *MappedFile::Open(path + "_empty");
    const MappedFile moved = std::move(file);
    EXPECT_FALSE(MappedFile::Open(::testing::TempDir()).ok());
    EXPECT_EQ(OpenDescriptors(), before + 1);
  }
  EXPECT_EQ(OpenDescriptors(), before);
}

// Returns whether the pages of `bytes` are mapped; `bytes` starts at a page.
bool IsMapped(absl::string_view bytes) {
  std::vector<unsigned char> resident(bytes.size());
  return ::mincore(const_cast<char*>(bytes.data()), bytes.size(), resident.data()) == 0;
}

TEST(FileTest, AShrunkMappingKeepsItsFirstBytesOnly) {
  const std::string path = TestPath("shrunk");
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  ASSERT_TRUE(WriteFileAtomically(path, {std::string(4 * page, 'x')}).ok());
  absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok());
  const absl::string_view whole = file->bytes();
  file->Shrink(page + 1);
  EXPECT_EQ(file->bytes(), std::string(page + 1, 'x'));
  EXPECT_TRUE(IsMapped(whole.substr(0, 2 * page)));
  EXPECT_FALSE(IsMapped(whole.substr(2 * page, page)));
  file->Shrink(0);
  EXPECT_EQ(file->bytes(), "");
  EXPECT_FALSE(IsMapped(whole.substr(0, page)));
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
  const int file = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  const absl::Status status = SystemFiles().Write(file, "x", "/dev/full");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  ASSERT_TRUE(SystemFiles().Close(file, "/dev/full").ok());
}

// Fails call number `fail_at`, counted over all calls.
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

// --- several writers -----------------------------------------------------------

// Returns an empty folder for the running test.
std::string NewFolder() {
  const std::string folder = TestPath(::testing::UnitTest::GetInstance()->current_test_info()->name());
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  return folder;
}

// Returns the names of a folder's entries, sorted.
std::vector<std::string> Entries(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

// Writes a byte to a pipe in place of the rename, and then waits forever.
class StuckFiles : public FileSystem {
 public:
  explicit StuckFiles(int pipe) : pipe_(pipe) {}
  absl::Status Sync(int, const std::string&) override {
    if (::write(pipe_, "x", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }

 private:
  const int pipe_;
};

// A process that is in the middle of writing `path`.
pid_t StartStuckWriter(const std::string& path) {
  int pipe[2];
  EXPECT_EQ(::pipe(pipe), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    StuckFiles files(pipe[1]);
    const absl::Status status = WriteFileAtomically(path, {"from the child"}, files);
    ::_exit(status.ok() ? 0 : 1);
  }
  ::close(pipe[1]);
  char byte;
  EXPECT_EQ(::read(pipe[0], &byte, 1), 1);
  ::close(pipe[0]);
  return child;
}

void Kill(pid_t child) {
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
}

TEST(FileTest, TheTemporaryFileOfAKilledWriterIsRemovedByTheNextOfThatPath) {
  const std::string folder = NewFolder();
  const std::string path = folder + "/file";
  Kill(StartStuckWriter(path));
  ASSERT_THAT(Entries(folder), ElementsAre(HasSubstr("file.tmp-")));
  ASSERT_TRUE(WriteFileAtomically(folder + "/fil", {"another path"}).ok());
  ASSERT_TRUE(WriteFileAtomically(folder + "/file.tmp", {"another path"}).ok());
  EXPECT_THAT(Entries(folder), ElementsAre("fil", "file.tmp", HasSubstr("file.tmp-")));
  ASSERT_TRUE(WriteFileAtomically(path, {"new"}).ok());
  EXPECT_THAT(Entries(folder), ElementsAre("fil", "file", "file.tmp"));
  EXPECT_EQ(ReadAll(path), "new");
}

TEST(FileTest, TheTemporaryFileOfALivingWriterStays) {
  const std::string folder = NewFolder();
  const std::string path = folder + "/file";
  const pid_t child = StartStuckWriter(path);
  ASSERT_TRUE(WriteFileAtomically(path, {"from the parent"}).ok());
  const std::vector<std::string> entries = Entries(folder);
  ASSERT_THAT(entries, ElementsAre("file", HasSubstr("file.tmp-")));
  EXPECT_EQ(ReadAll(folder + "/" + entries[1]), "from the child");
  Kill(child);
  ASSERT_TRUE(WriteFileAtomically(path, {"again"}).ok());
  EXPECT_THAT(Entries(folder), ElementsAre("file"));
}

TEST(FileTest, FilesOfTheUserAreNotTakenForTemporaryOnes) {
  const std::string folder = NewFolder();
  const std::vector<std::string> kept = {"file.tmp-",        "file.tmp-1",   "file.tmp-1-",
                                         "file.tmp-1-2.txt", "file.tmp-a-1", "x.file.tmp-1-2"};
  for (const std::string& name : kept) ASSERT_TRUE(WriteFileAtomically(folder + "/" + name, {"mine"}).ok());
  ASSERT_TRUE(WriteFileAtomically(folder + "/file", {"new"}).ok());
  EXPECT_THAT(Entries(folder), SizeIs(kept.size() + 1));
}

TEST(FileTest, ThreadsAndProcessesWriteOnePathAtOnce) {
  const std::string folder = NewFolder();
  const std::string path = folder + "/file";
  const auto write = [&](int writer) {
    int failures = 0;
    for (int i = 0; i < 200; ++i) {
      if (!WriteFileAtomically(path, {absl::StrCat("writer ", writer)}).ok()) ++failures;
    }
    return failures;
  };
  const pid_t child = ::fork();
  if (child == 0) ::_exit(write(0) == 0 ? 0 : 1);
  std::vector<int> failures(3);
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back([&, i] { failures[static_cast<size_t>(i)] = write(i + 1); });
  for (std::thread& thread : threads) thread.join();
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "a write of the other process failed";
  EXPECT_THAT(failures, ElementsAre(0, 0, 0));
  EXPECT_THAT(Entries(folder), ElementsAre("file"));
  EXPECT_THAT(ReadAll(path), HasSubstr("writer "));
}

}  // namespace
}  // namespace cotan
