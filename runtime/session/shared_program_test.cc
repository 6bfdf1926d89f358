// SPDX-License-Identifier: Apache-2.0

// Several sessions on several threads share one Program. ThreadSanitizer runs this test as well (testing/sanitize).
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "runtime/session/session.h"
#include "runtime/testing/program_builder.h"

namespace cotan {
namespace {

constexpr int kThreads = 4;
constexpr int kSteps = 8;

// Runs `kSteps` training steps of LinearRegression() on a session of its own, of batches whose size depends on `seed`,
// saves and loads a checkpoint on the way, and returns the last loss and the weights.
std::vector<float> Train(const std::shared_ptr<const Program>& program, int seed, const std::string& checkpoint) {
  SessionOptions options;
  options.kernels = &testing::TestKernels();
  options.threads = 1;
  absl::StatusOr<Session> session = Session::Create(program, options);
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return {};
  std::vector<float> result;
  for (int step = 0; step < kSteps; ++step) {
    const int batch = 1 + (seed + step) % 3;
    const std::vector<float> x(static_cast<size_t>(batch) * 3, 0.5f + 0.1f * static_cast<float>(seed));
    const std::vector<float> y(static_cast<size_t>(batch) * 2, 1.0f);
    const auto results =
        session->Run("train_step", {*Tensor::From<float>(x, {batch, 3}), *Tensor::From<float>(y, {batch, 2})});
    EXPECT_TRUE(results.ok()) << results.status();
    if (!results.ok()) return {};
    result = {*results->back().Item<float>()};
    if (step == kSteps / 2) {
      EXPECT_TRUE(session->SaveCheckpoint(checkpoint).ok());
      EXPECT_TRUE(session->LoadCheckpoint(checkpoint).ok());
    }
  }
  for (const auto& declared : program->artifact().states()) {
    const auto state = session->State(declared.name());
    if (!state.ok() || state->dtype() != DType::kFloat32) continue;
    const std::vector<float> values = *state->ToVector<float>();
    result.insert(result.end(), values.begin(), values.end());
  }
  return result;
}

TEST(SharedProgramTest, SessionsOfSeveralThreadsTrainAsIfEachWereAlone) {
  const std::shared_ptr<const Program> program = testing::LinearRegression().Load();
  std::vector<std::vector<float>> alone(kThreads);
  std::vector<std::vector<float>> together(kThreads);
  const auto path = [](int thread) { return absl::StrCat(::testing::TempDir(), "/shared_", thread, ".safetensors"); };
  for (int t = 0; t < kThreads; ++t) alone[static_cast<size_t>(t)] = Train(program, t, path(t));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] { together[static_cast<size_t>(t)] = Train(program, t, path(t)); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(together, alone);
  EXPECT_NE(alone[0], alone[1]);
}

// The file of a checkpoint is replaced as a whole, whichever session comes last.
TEST(SharedProgramTest, SessionsMaySaveToOnePath) {
  const std::shared_ptr<const Program> program = testing::LinearRegression().Load();
  const std::string path = absl::StrCat(::testing::TempDir(), "/one.safetensors");
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back([&, t] { EXPECT_FALSE(Train(program, t, path).empty()); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace cotan
