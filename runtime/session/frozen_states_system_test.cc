// SPDX-License-Identifier: Apache-2.0

// Frozen states whose file the system cannot map or read. frozen_states_test.cc has the rest.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/session/frozen_states.h"
#include "runtime/testing/program_builder.h"

namespace cotan {
namespace {

using ::testing::HasSubstr;

constexpr size_t kCount = 1 << 21, kBytes = 4 * kCount;  // of the frozen state

class FrozenStatesSystemTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::ProgramBuilder program;
    program.AddState("base", serialization::State::PARAMETER, {absl::StrCat(kCount)}, std::vector<float>(kCount, 1.0f));
    ASSERT_TRUE(WriteFileAtomically(path_, {program.Bytes()}).ok());
    const auto loaded = Program::Load(path_);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    program_ = *loaded;
  }

  const std::string path_ = absl::StrCat(::testing::TempDir(), "/unread.cotan");
  std::shared_ptr<const Program> program_;
};

// Returns whether madvise() can read the pages of a mapping.
bool ReadsPagesAhead() {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  void* const memory = ::mmap(nullptr, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const bool is_known = memory != MAP_FAILED && ::madvise(memory, page, MADV_POPULATE_READ) == 0;
  if (memory != MAP_FAILED) ::munmap(memory, page);
  return is_known;
}

TEST_F(FrozenStatesSystemTest, AFileThatCannotBeReadIsAnErrorWhenASessionBegins) {
  if (!ReadsPagesAhead()) GTEST_SKIP() << "Linux before 5.14";
  std::filesystem::resize_file(path_, kBytes / 2);
  const absl::Status status = FrozenStates::Map(*program_, HostDevice()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("program 'unread', frozen states from 'base' on: cannot read"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("the file was truncated"));
}

// Maps the state within a limit of memory that lacks half of it. Returns what is wrong.
std::string MapWithoutMemory(const Program& program) {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit limit;
  if (pages == 0 || ::getrlimit(RLIMIT_AS, &limit) != 0) return "the process does not know its memory";
  limit.rlim_cur = pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE)) + kBytes / 2;
  if (::setrlimit(RLIMIT_AS, &limit) != 0) return "no limit can be set";
  const absl::Status status = FrozenStates::Map(program, HostDevice()).status();
  if (status.code() != absl::StatusCode::kResourceExhausted) return status.ToString();
  if (!absl::StrContains(status.message(), "program 'unread', frozen states from 'base' on: cannot map") ||
      !absl::StrContains(status.message(), "raise the limit of memory, or load the program with LoadBytes()")) {
    return status.ToString();
  }
  return "";
}

TEST_F(FrozenStatesSystemTest, AMappingWithoutMemoryIsResourceExhausted) {
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string problem = MapWithoutMemory(*program_);
    if (!problem.empty()) std::fprintf(stderr, "%s\n", problem.c_str());
    ::_exit(problem.empty() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace cotan
