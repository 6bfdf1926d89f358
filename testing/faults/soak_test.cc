// SPDX-License-Identifier: Apache-2.0

// Trains for a while with everything that a long run does: batches of other sizes, another method between steps,
// checkpoints, sessions that are made again from them. Memory stays flat, and the states have the bits of a run without
// interruptions. COTAN_SOAK_SECONDS: how long; an hour before a release (docs/security.md).
#include <malloc.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/session.h"
#include "runtime/testing/session_states.h"

namespace cotan {
namespace {

using testing::StateBytes;

constexpr int64_t kPixels = int64_t{28} * 28;
constexpr int64_t kMaxBatch = 64;
// What allocators keep from one step to the next.
constexpr int64_t kMemorySlack = int64_t{8} << 20;

int SecondsToRun() {
  const char* const text = std::getenv("COTAN_SOAK_SECONDS");
  int seconds = 0;
  EXPECT_TRUE(text != nullptr && absl::SimpleAtoi(text, &seconds)) << "COTAN_SOAK_SECONDS is not a number";
  return seconds;
}

// Returns the bytes of the process in memory, after the allocator has given back what it can.
int64_t ResidentBytes() {
  malloc_trim(0);
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

Session NewSession(const std::shared_ptr<const Program>& program) {
  return *Session::Create(program, {.kernels = &CpuKernels(), .threads = 2, .max_plans = 4});
}

// One batch, which depends on the step alone.
struct Batch {
  Tensor images;
  Tensor labels;
};

Batch BatchOf(int64_t step) {
  std::mt19937_64 random(static_cast<uint64_t>(step));
  const auto size = static_cast<int64_t>(1 + random() % kMaxBatch);
  std::vector<float> pixels(static_cast<size_t>(size * kPixels));
  for (float& pixel : pixels) pixel = static_cast<float>(random() >> 40) * 0x1p-24F;
  std::vector<int64_t> labels(static_cast<size_t>(size));
  for (int64_t& label : labels) label = static_cast<int64_t>(random() % 10);
  return {*Tensor::From<float>(pixels, {size, 1, 28, 28}), *Tensor::From<int64_t>(labels, {size})};
}

void Train(Session& session, int64_t step) {
  const Batch batch = BatchOf(step);
  const auto results = session.Run("train_step", {batch.images, batch.labels});
  ASSERT_TRUE(results.ok()) << results.status();
}

TEST(SoakTest, MemoryStaysFlatAndInterruptionsChangeNoBit) {
  std::mt19937_64 random(testing::TestSeed());
  const std::string path = ::testing::TempDir() + "/soak.safetensors";
  const std::shared_ptr<const Program> program = *Program::Load("examples/digits/digits.cotan");
  Session session = NewSession(program), uninterrupted = NewSession(program);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(SecondsToRun());
  int64_t step = 0, evaluations = 0, restarts = 0, saves = 0, memory = 0;
  for (; std::chrono::steady_clock::now() < end && !HasFatalFailure(); ++step) {
    Train(session, step);
    Train(uninterrupted, step);
    if (random() % 4 == 0) {
      ASSERT_TRUE(session.Run("eval", {BatchOf(static_cast<int64_t>(random() >> 1)).images}).ok());
      ++evaluations;
    }
    if (random() % 8 == 0) {
      ASSERT_TRUE(session.SaveCheckpoint(path).ok());
      ++saves;
      if (random() % 4 == 0) {
        session = NewSession(program);
        ASSERT_TRUE(session.LoadCheckpoint(path).ok());
        ++restarts;
      }
    }
    if (step % 100 != 99) continue;
    ASSERT_EQ(StateBytes(session), StateBytes(uninterrupted)) << "step " << step;
    if (step == 199) memory = ResidentBytes();
    if (step > 199) {
      ASSERT_LE(ResidentBytes(), memory + kMemorySlack) << "step " << step;
    }
  }
  EXPECT_EQ(StateBytes(session), StateBytes(uninterrupted));
  ASSERT_GT(step, 200) << "too few steps to see a leak";
  // A short run ends before the loop compares.
  EXPECT_LE(ResidentBytes(), memory + kMemorySlack) << "after " << step << " steps";
  EXPECT_GT(restarts, 0);
  std::printf("%d steps, %d evaluations, %d checkpoints, %d restarts, %.1f MiB after 200 steps, %.1f MiB at the end\n",
              static_cast<int>(step), static_cast<int>(evaluations), static_cast<int>(saves),
              static_cast<int>(restarts), static_cast<double>(memory) / (1 << 20),
              static_cast<double>(ResidentBytes()) / (1 << 20));
}

}  // namespace
}  // namespace cotan
