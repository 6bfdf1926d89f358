// SPDX-License-Identifier: Apache-2.0

// Several sessions on several threads share one Program. ThreadSanitizer runs this test as well (testing/sanitize).
#include <atomic>
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
  options.max_plans = 2;  // of three sizes
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

// Checkpoints are written and read on some threads while others train; each file that is read is whole.
TEST(SharedProgramTest, CheckpointsAreSavedAndLoadedWhileOtherSessionsTrain) {
  const std::shared_ptr<const Program> program = testing::LinearRegression().Load();
  const auto path = [](int thread) { return absl::StrCat(::testing::TempDir(), "/trained_", thread, ".safetensors"); };
  const std::string shared = absl::StrCat(::testing::TempDir(), "/saved.safetensors");
  const SessionOptions options = {.kernels = &testing::TestKernels(), .threads = 1};
  Session saver = *Session::Create(program, options), loader = *Session::Create(program, options);
  ASSERT_TRUE(saver.SaveCheckpoint(shared).ok());
  const std::vector<float> alone = Train(program, 0, path(0));
  std::atomic<bool> done = false;
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    for (double lr = 1; !done; lr += 1) {
      EXPECT_TRUE(saver.SetHyperparameter("lr", lr).ok());
      EXPECT_TRUE(saver.SaveCheckpoint(shared).ok());
    }
  });
  threads.emplace_back([&] {
    for (double last = 0; !done;) {
      const absl::Status status = loader.LoadCheckpoint(shared);
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_GE(*loader.Hyperparameter("lr"), last);
      last = *loader.Hyperparameter("lr");
    }
  });
  EXPECT_EQ(Train(program, 0, path(0)), alone);
  done = true;
  for (std::thread& thread : threads) thread.join();
}

// Handlers on several threads call sessions of their own, and their own session, which refuses.
TEST(SharedProgramTest, HandlersOfSeveralThreadsCallSessions) {
  testing::ProgramBuilder builder = testing::LinearRegression();
  serialization::Method& eval = *builder.artifact().mutable_methods(1);
  serialization::Op& print = *eval.add_ops();
  print.mutable_effect()->set_kind(serialization::Effect::PRINT);
  print.mutable_effect()->set_name("prediction");
  print.add_inputs(eval.outputs(0));
  const std::shared_ptr<const Program> program = builder.Load();
  const auto run = [&](std::atomic<int>& refused) {
    Session* own = nullptr;
    SessionOptions options = {.kernels = &testing::TestKernels(), .threads = 1};
    options.effects.Set(EffectKind::kPrint, [](const EffectEvent&) { return absl::OkStatus(); });
    Session other = *Session::Create(program, options);
    options.effects.Set(EffectKind::kPrint, [&](const EffectEvent& event) {
      const Tensor input = *Tensor::From<float>({1, 2, 3}, {1, 3});
      if (own->Run("eval", {input}).status().code() == absl::StatusCode::kFailedPrecondition) ++refused;
      return other.Run("eval", {input}).status();
    });
    Session session = *Session::Create(program, options);
    own = &session;
    for (int call = 0; call < kSteps; ++call) {
      const absl::Status status = session.Run("eval", {*Tensor::From<float>({1, 2, 3, 4, 5, 6}, {2, 3})}).status();
      EXPECT_TRUE(status.ok()) << status;
    }
  };
  std::atomic<int> refused = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back([&] { run(refused); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, kThreads * kSteps);
}

}  // namespace
}  // namespace cotan
