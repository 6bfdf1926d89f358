// SPDX-License-Identifier: Apache-2.0

// Checkpoints on file systems of the kernel: disks that are full, files that may not be written, and several processes
// that use one file. checkpoint_test.cc injects failures into each call.
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/session/session.h"
#include "runtime/testing/program_builder.h"
#include "runtime/testing/session_states.h"

namespace cotan {
namespace {

using ::testing::ElementsAre;
using testing::LinearRegression;
using testing::ProgramBuilder;
using testing::StateBytes;
using testing::TestKernels;

constexpr int kSkipped = 77;
constexpr size_t kPage = 4096, kPages = 8;  // of the file system that is full

// Returns the path of an empty folder.
std::string NewFolder(absl::string_view name) {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/", name);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  return folder;
}

std::vector<std::string> Entries(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  return names;
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

// A session with states of a few pages.
Session LargeSession() {
  ProgramBuilder program;
  program.AddState("weight", serialization::State::PARAMETER, DType::kFloat32, {"3000"}, 1);
  return *Session::Create(program.Load(), {.kernels = &TestKernels(), .threads = 1});
}

void SetWeight(Session& session, float value) {
  const std::vector<float> values(3000, value);
  EXPECT_TRUE(session.SetState("weight", *Tensor::From<float>(values, {3000})).ok());
}

// Runs `body` in a child process and returns the status with which that exits: 0 if `body` returns an empty text; else
// 1, after the text has been printed.
int InChild(absl::FunctionRef<std::string()> body) {
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string problem = body();
    if (!problem.empty()) std::fprintf(stderr, "%s\n", problem.c_str());
    ::_exit(problem.empty() ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// A write beyond the limit is cut short at first: the system writes up to the limit.
TEST(CheckpointSystemTest, ShortWritesKeepTheOldFile) {
  const std::string folder = NewFolder("short"), path = folder + "/states.safetensors";
  ::signal(SIGXFSZ, SIG_IGN);
  Session session = LargeSession();
  ASSERT_TRUE(session.SaveCheckpoint(path).ok());
  const std::string old = ReadAll(path);
  SetWeight(session, 2);
  rlimit unlimited;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &unlimited), 0);
  for (size_t limit = 0; limit < old.size(); limit += 97) {
    rlimit limited = unlimited;
    limited.rlim_cur = limit;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limited), 0);
    const absl::Status status = session.SaveCheckpoint(path);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &unlimited), 0);
    ASSERT_FALSE(status.ok()) << limit;
    ASSERT_EQ(ReadAll(path), old) << limit;
  }
  EXPECT_THAT(Entries(folder), ElementsAre("states.safetensors"));
  ASSERT_TRUE(session.SaveCheckpoint(path).ok());
  EXPECT_NE(ReadAll(path), old);
}

// Mounts a file system on which an old and a new checkpoint have room, fills it more and more until it is full, and
// saves each time. Returns what is wrong.
std::string SaveOnFullDisk(const std::string& folder) {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=32k") != 0) {
    ::_exit(kSkipped);
  }
  const std::string path = folder + "/states.safetensors";
  Session session = LargeSession();
  if (!session.SaveCheckpoint(path).ok()) return "the first save failed";
  const std::string old = ReadAll(path);
  SetWeight(session, 2);
  const size_t needed = (old.size() + kPage - 1) / kPage;
  for (size_t pages = kPages - 2 * needed + 1; pages <= kPages - needed; ++pages) {
    std::ofstream(folder + "/filler", std::ios::binary) << std::string(pages * kPage, 'x');
    const absl::Status status = session.SaveCheckpoint(path);
    if (status.ok()) return absl::StrCat("a save succeeded beside ", pages, " pages");
    if (status.code() != absl::StatusCode::kResourceExhausted) return status.ToString();
    if (ReadAll(path) != old) return absl::StrCat("the old file has changed beside ", pages, " pages");
    if (Entries(folder).size() != 2) return "a temporary file is left";
  }
  std::filesystem::remove(folder + "/filler");
  if (!session.SaveCheckpoint(path).ok() || ReadAll(path) == old) return "no save succeeds on a disk with room";
  return "";
}

TEST(CheckpointSystemTest, AFullDiskKeepsTheOldFile) {
  const std::string folder = NewFolder("full");
  const int status = InChild([&] { return SaveOnFullDisk(folder); });
  if (status == kSkipped) GTEST_SKIP() << "no file system may be mounted";
  EXPECT_EQ(status, 0);
}

// Gives up the right of root to write what its permissions forbid. Returns whether that succeeded.
bool ObeyPermissions() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (::syscall(SYS_capget, &header, data) != 0) return false;
  data[0].effective &= ~((1U << CAP_DAC_OVERRIDE) | (1U << CAP_DAC_READ_SEARCH));
  return ::syscall(SYS_capset, &header, data) == 0;
}

TEST(CheckpointSystemTest, AFolderThatMayNotBeWrittenKeepsItsFile) {
  const std::string folder = NewFolder("read_only"), path = folder + "/states.safetensors";
  Session session = LargeSession();
  ASSERT_TRUE(session.SaveCheckpoint(path).ok());
  const std::string old = ReadAll(path);
  ASSERT_EQ(::chmod(path.c_str(), 0444), 0);
  ASSERT_EQ(::chmod(folder.c_str(), 0555), 0);
  const int status = InChild([&]() -> std::string {
    if (!ObeyPermissions()) return "permissions are not obeyed";
    Session reader = LargeSession();
    SetWeight(reader, 2);
    if (const absl::Status loaded = reader.LoadCheckpoint(path); !loaded.ok()) return loaded.ToString();
    if (StateBytes(reader) != StateBytes(session)) return "other states are loaded";
    SetWeight(reader, 3);
    const std::string before = StateBytes(reader);
    const absl::Status saved = reader.SaveCheckpoint(path);
    if (saved.code() != absl::StatusCode::kPermissionDenied) return saved.ToString();
    if (!absl::StrContains(saved.message(), path)) return "the error does not name the file";
    return StateBytes(reader) == before ? "" : "a failed save changes states";
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(ReadAll(path), old);
  ASSERT_EQ(::chmod(folder.c_str(), 0755), 0);
  EXPECT_THAT(Entries(folder), ElementsAre("states.safetensors"));
  // The permissions of a file do not protect it from being replaced; those of its folder do.
  SetWeight(session, 4);
  EXPECT_TRUE(session.SaveCheckpoint(path).ok());
  EXPECT_NE(ReadAll(path), old);
}

Session Trainee(double lr) {
  Session session = *Session::Create(LinearRegression().Load(), {.kernels = &TestKernels(), .threads = 1});
  EXPECT_TRUE(session.SetHyperparameter("lr", lr).ok());
  return session;
}

absl::Status Step(Session& session) {
  const Tensor input = *Tensor::From<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor target = *Tensor::From<float>({1, 0, 0, 1}, {2, 2});
  return session.Run("train_step", {input, target}).status();
}

// Trains and saves to `path` after each step.
std::string TrainAndSave(double lr, int steps, const std::string& path) {
  Session session = Trainee(lr);
  for (int step = 0; step < steps; ++step) {
    absl::Status status = Step(session);
    if (status.ok()) status = session.SaveCheckpoint(path);
    if (!status.ok()) return status.ToString();
  }
  return "";
}

// Each file that a third process reads is whole, and one that one of both has saved.
TEST(CheckpointSystemTest, TwoProcessesSaveToOneFile) {
  constexpr int kSteps = 200;
  constexpr double kRates[] = {0.01, 0.02};
  const std::string folder = NewFolder("two"), path = folder + "/states.safetensors";
  absl::flat_hash_set<std::string> saved;
  for (const double lr : kRates) {
    Session session = Trainee(lr);
    for (int step = 0; step < kSteps; ++step) {
      ASSERT_TRUE(Step(session).ok());
      saved.insert(StateBytes(session));
    }
    ASSERT_TRUE(session.SaveCheckpoint(path).ok());
  }
  std::vector<pid_t> children;
  for (const double lr : kRates) {
    const pid_t child = ::fork();
    if (child == 0) {
      const std::string problem = TrainAndSave(lr, kSteps, path);
      if (!problem.empty()) std::fprintf(stderr, "%s\n", problem.c_str());
      ::_exit(problem.empty() ? 0 : 1);
    }
    children.push_back(child);
  }
  absl::flat_hash_set<std::string> loaded;
  for (const pid_t child : children) {
    int status = 0;
    while (::waitpid(child, &status, WNOHANG) == 0) {
      Session session = Trainee(1);
      const absl::Status read = session.LoadCheckpoint(path);
      ASSERT_TRUE(read.ok()) << read;
      ASSERT_TRUE(saved.contains(StateBytes(session)));
      loaded.insert(StateBytes(session));
    }
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  EXPECT_GT(loaded.size(), 2u);
  EXPECT_THAT(Entries(folder), ElementsAre("states.safetensors"));
}

}  // namespace
}  // namespace cotan
