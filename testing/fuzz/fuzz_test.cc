// SPDX-License-Identifier: Apache-2.0

// Runs a fuzz target on its seeds, on each file of its corpus, and on COTAN_FUZZ_RUNS mutated inputs. Accepted inputs
// are mutated further, so that changes add up.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "base/test_seed.h"
#include "testing/fuzz/fuzz_target.h"

namespace cotan::testing {
namespace {

constexpr size_t kMaxPool = 256;
constexpr size_t kMaxInputBytes = 1 << 16;
// Of one input; the process ends with SIGPROF if it takes more. Inputs take milliseconds, some ten times that with
// sanitizers.
constexpr time_t kMaxSeconds = 60;

int NumRuns() {
  const char* const text = std::getenv("COTAN_FUZZ_RUNS");
  int runs = 0;
  EXPECT_TRUE(text != nullptr && absl::SimpleAtoi(text, &runs)) << "COTAN_FUZZ_RUNS is not a number";
  return runs;
}

// Keeps a copy of the input that runs in "input" among the outputs of the test, where it is after a crash. The file is
// mapped, so that a copy costs no system call.
class LastInput {
 public:
  LastInput() {
    const char* const folder = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR");
    if (folder == nullptr) return;
    const std::string path = std::string(folder) + "/input";
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0) return;
    if (ftruncate(file, kMaxInputBytes) == 0) {
      void* const memory = mmap(nullptr, kMaxInputBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
      if (memory != MAP_FAILED) memory_ = static_cast<char*>(memory);
    }
    close(file);
  }

  // Inputs end with zeros in the file.
  void Set(const std::string& input) {
    if (memory_ == nullptr) return;
    std::memset(memory_, 0, kMaxInputBytes);
    std::memcpy(memory_, input.data(), std::min(input.size(), kMaxInputBytes));
  }

 private:
  char* memory_ = nullptr;
};

bool RunInputInTime(const std::string& input) {
  static LastInput last_input;
  last_input.Set(input);
  const itimerval limit = {{0, 0}, {kMaxSeconds, 0}};
  setitimer(ITIMER_PROF, &limit, nullptr);
  return RunInput(input);
}

struct CorpusInput {
  std::string path;
  std::string bytes;
};

// Returns the files below the folder COTAN_FUZZ_CORPUS, of which there is at least one. None if it is not set: the
// target has no corpus.
std::vector<CorpusInput> CorpusInputs() {
  std::vector<CorpusInput> inputs;
  const char* const folder = std::getenv("COTAN_FUZZ_CORPUS");
  if (folder == nullptr) return inputs;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, error)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    inputs.push_back({entry.path().string(), {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}});
  }
  EXPECT_FALSE(inputs.empty()) << "COTAN_FUZZ_CORPUS: no files in " << folder << " " << error.message();
  return inputs;
}

TEST(FuzzTest, SeedsAreAccepted) {
  const std::vector<std::string> seeds = SeedInputs();
  EXPECT_FALSE(seeds.empty());
  for (size_t i = 0; i < seeds.size(); ++i) EXPECT_TRUE(RunInputInTime(seeds[i])) << "seed " << i;
}

TEST(FuzzTest, TheCorpusIsSafe) {
  for (const CorpusInput& input : CorpusInputs()) {
    std::fprintf(stderr, "%s\n", input.path.c_str());  // the last one is the input of a crash
    RunInputInTime(input.bytes);
  }
}

TEST(FuzzTest, MutatedInputsAreSafe) {
  std::mt19937_64 random(TestSeed());
  std::vector<std::string> pool = SeedInputs();
  for (CorpusInput& input : CorpusInputs()) pool.push_back(std::move(input.bytes));
  const size_t num_originals = pool.size();
  const int runs = NumRuns();
  int accepted = 0;
  for (int run = 0; run < runs; ++run) {
    std::string input = MutateInput(pool[random() % pool.size()], random);
    if (!RunInputInTime(input)) continue;
    ++accepted;
    if (input.size() > kMaxInputBytes) continue;
    if (pool.size() < num_originals + kMaxPool) {
      pool.push_back(std::move(input));
    } else {
      pool[num_originals + random() % kMaxPool] = std::move(input);
    }
  }
  RecordProperty("accepted", accepted);
  // Mutation that the reader always refuses would test its first check only.
  EXPECT_GT(accepted, runs / 100);
  EXPECT_LT(accepted, runs);
}

}  // namespace
}  // namespace cotan::testing
