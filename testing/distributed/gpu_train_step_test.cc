// SPDX-License-Identifier: Apache-2.0

// Ranks with a simulated GPU each train as one process with the whole batch does, over simulated NCCL: with the same
// bits when it is repeated, recorded or queued launch by launch.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "aot/cuda/embed_kernels.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "base/test_seed.h"
#include "kernels/cuda/register_cuda.h"
#include "kernels/cuda/testing/sim_device.h"
#include "runtime/distributed/testing/gpu_ranks.h"
#include "runtime/session.h"
#include "runtime/testing/session_states.h"
#include "testing/distributed/parallel_case.h"
#include "testing/distributed/parallel_model.h"
#include "testing/distributed/ranks.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

using aot::DataParallelOptions;
using Options = cuda::testing::SimDevice::Options;

constexpr int64_t kBatch = 5, kSteps = 6;

std::vector<ParallelCase> Cases() {
  return {
      {"momentum_2", 2, Perceptron(), Config(kMomentum), Averaged()},
      {"one_bucket_4", 4, Perceptron(), Config(kMomentum), {}},
      {"clipped_adam_3", 3, Perceptron(), ClippedByNorm(kAdam), Averaged()},
      {"sharded_adam_2", 2, Perceptron(), ClippedByNorm(kAdam), Sharded(2)},
      {"synchronised_2", 2, NormalizedNetwork(), Config(kMomentum), Synchronised()},
  };
}

// Addresses repeat from step to step, so that steps are recorded. Ranks share what they compile.
Options Recorded(uint64_t seed = 0) {
  return {.seed = seed, .keeps_freed_memory = true, .kernel_cache = ::testing::TempDir() + "/kernels"};
}

Options Queued() {
  Options options = Recorded();
  options.records_work = false;
  return options;
}

// One rank's session.
class Trainer {
 public:
  static absl::StatusOr<Trainer> Create(GpuRank& rank, const std::string& path) {
    absl::StatusOr<std::shared_ptr<const Program>> program = Program::Load(path);
    if (!program.ok()) return program.status();
    absl::StatusOr<Session> session = Session::Create(
        *program, {.kernels = &CudaKernels(), .device = &rank.device(), .communicator = &rank.communicator()});
    if (!session.ok()) return session.status();
    return Trainer(rank, *std::move(session));
  }

  // Queues a step with this rank's part of a batch, with labels moved by `shift`. Returns the loss, on the GPU.
  absl::StatusOr<Tensor> Queue(const RankData& data, int64_t step, int64_t shift = 0) {
    const int64_t first = (step * rank_->size() + rank_->number()) * data.batch;
    const int64_t row = static_cast<int64_t>(data.inputs.size() / data.labels.size());
    std::vector<int64_t> sizes = data.sizes;
    sizes.insert(sizes.begin(), data.batch);
    const auto inputs = absl::MakeConstSpan(data.inputs)
                            .subspan(static_cast<size_t>(first * row), static_cast<size_t>(data.batch * row));
    std::vector<int64_t> labels(data.labels.begin() + first, data.labels.begin() + first + data.batch);
    for (int64_t& label : labels) label += shift;
    absl::StatusOr<std::vector<Tensor>> results =
        session_.Run("train_step", {*Tensor::From<float>(inputs, sizes), *Tensor::From<int64_t>(labels, {data.batch})});
    if (!results.ok()) return results.status();
    return results->back();
  }

  absl::StatusOr<float> Step(const RankData& data, int64_t step) {
    const absl::StatusOr<Tensor> loss = Queue(data, step);
    if (!loss.ok()) return loss.status();
    return loss->Item<float>();
  }

  Session& session() { return session_; }

 private:
  Trainer(GpuRank& rank, Session session) : rank_(&rank), session_(std::move(session)) {}

  GpuRank* rank_;
  Session session_;
};

struct GpuResult {
  std::vector<float> losses;
  std::string states;                                    // bytes of all
  std::map<std::string, std::vector<float>> parameters;  // and other states of f32
};

std::map<std::string, std::vector<float>> FloatStates(const Session& session) {
  std::map<std::string, std::vector<float>> states;
  for (const auto& state : session.program().artifact().states()) {
    const Tensor value = *session.State(state.name());
    if (value.dtype() == DType::kFloat32) states[state.name()] = *value.ToVector<float>();
  }
  return states;
}

// Trains all steps. Returns a result for each rank. Expects that steps are recorded if `records`.
std::vector<GpuResult> TrainOnGpus(const std::string& program, const RankData& data, int count, const Options& options,
                                   bool records) {
  std::vector<GpuResult> results(static_cast<size_t>(count));
  GpuRanks ranks(count, options);
  ranks.RunJoined({}, [&](GpuRank& rank) {
    absl::StatusOr<Trainer> trainer = Trainer::Create(rank, program);
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    GpuResult& result = results[static_cast<size_t>(rank.number())];
    for (int64_t step = 0; step < data.steps; ++step) {
      const absl::StatusOr<float> loss = trainer->Step(data, step);
      ASSERT_TRUE(loss.ok()) << loss.status();
      result.losses.push_back(*loss);
    }
    result.states = StateBytes(trainer->session());
    result.parameters = FloatStates(trainer->session());
    EXPECT_EQ(rank.gpu().statistics().graph_launches > 0, records);
  });
  return results;
}

class GpuDataParallel : public ::testing::TestWithParam<ParallelCase> {};

TEST_P(GpuDataParallel, EqualsTheWholeBatchInOneProcess) {
  const ParallelCase& one = GetParam();
  const RankData data = DrawData(one.model, one.ranks, kBatch, kSteps, TestSeed());
  const std::string program = CompileParallel(one.model, kBatch, one.optimizer, one.parallel);
  ASSERT_FALSE(program.empty());
  const Whole whole = TrainWhole(one, data);

  // With shards, a step checks on the host of which rank the states are.
  const bool records = !one.parallel.shard_optimizer;
  const std::vector<GpuResult> results = TrainOnGpus(program, data, one.ranks, Recorded(), records);
  for (const GpuResult& result : results) {
    ASSERT_EQ(result.losses.size(), whole.losses.size());
    EXPECT_EQ(result.losses, results[0].losses);
    for (size_t i = 0; i < whole.losses.size(); ++i) {
      EXPECT_LE(LossError(result.losses[i], whole.losses[i]), kModelDrift) << i;
    }
    for (const auto& [name, expected] : whole.states) {
      const auto found = result.parameters.find(name);
      if (found == result.parameters.end() || expected.scalar_type() != torch::kFloat) continue;
      EXPECT_LE(StateError(found->second, expected), kModelDrift) << name;
    }
  }
  // Repeated with another order of streams and blocks, and without recordings.
  const std::vector<GpuResult> again = TrainOnGpus(program, data, one.ranks, Recorded(/*seed=*/3), records);
  const std::vector<GpuResult> queued = TrainOnGpus(program, data, one.ranks, Queued(), /*records=*/false);
  for (size_t r = 0; r < results.size(); ++r) {
    EXPECT_EQ(again[r].losses, results[r].losses);
    EXPECT_EQ(again[r].states, results[r].states);
    EXPECT_EQ(queued[r].losses, results[r].losses);
    EXPECT_EQ(queued[r].states, results[r].states);
  }
}

// With a sharded optimizer the host reads from the GPU within a step, so that such an error ends the group.
std::vector<ParallelCase> CasesWithoutShards() {
  std::vector<ParallelCase> cases = Cases();
  std::erase_if(cases, [](const ParallelCase& one) { return one.parallel.shard_optimizer; });
  return cases;
}

class GpuDataParallelErrors : public GpuDataParallel {};

TEST_P(GpuDataParallelErrors, AnErrorOfValuesOnOneRankLeavesTheStatesOfAll) {
  const ParallelCase& one = GetParam();
  const RankData data = DrawData(one.model, one.ranks, kBatch, kSteps, TestSeed());
  const std::string program = CompileParallel(one.model, kBatch, one.optimizer, one.parallel);
  ASSERT_FALSE(program.empty());
  std::vector<float> losses(static_cast<size_t>(one.ranks));
  GpuRanks ranks(one.ranks, Recorded());
  ranks.RunJoined({}, [&](GpuRank& rank) {
    absl::StatusOr<Trainer> trainer = Trainer::Create(rank, program);
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    Session& session = trainer->session();
    for (int64_t step = 0; step < 3; ++step) ASSERT_TRUE(trainer->Step(data, step).ok());
    const std::string states = StateBytes(session);
    const int64_t shift = rank.number() == 1 ? 100 : 0;
    ASSERT_TRUE(trainer->Queue(data, 3, shift).ok());
    const absl::Status status = session.Synchronize();
    if (rank.number() == 1) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    } else {
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
      EXPECT_TRUE(absl::StrContains(status.message(), "rank 1 has an error of values")) << status;
    }
    EXPECT_EQ(StateBytes(session), states);
    EXPECT_TRUE(trainer->Step(data, 4).ok());
    EXPECT_NE(StateBytes(session), states);
    const absl::StatusOr<float> loss = trainer->Step(data, 5);
    ASSERT_TRUE(loss.ok()) << loss.status();
    losses[static_cast<size_t>(rank.number())] = *loss;
  });
  for (const float loss : losses) EXPECT_EQ(loss, losses[0]);
}

INSTANTIATE_TEST_SUITE_P(Ranks, GpuDataParallel, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Ranks, GpuDataParallelErrors, ::testing::ValuesIn(CasesWithoutShards()),
                         [](const auto& info) { return info.param.name; });

// A program and data for two ranks.
struct TrainingSetup {
  std::string program = CompileParallel(Perceptron(), kBatch, Config(kMomentum), DataParallelOptions{});
  RankData data = DrawData(Perceptron(), 2, kBatch, kSteps, TestSeed());
};

TEST(GpuDataParallelTest, ARecordedStepIsOneLaunchAndTheHostDoesNotWait) {
  const TrainingSetup setup;
  GpuRanks ranks(2, Recorded());
  ranks.RunJoined({}, [&](GpuRank& rank) {
    absl::StatusOr<Trainer> trainer = Trainer::Create(rank, setup.program);
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    for (int64_t step = 0; step < 4; ++step) {
      const absl::StatusOr<float> loss = trainer->Step(setup.data, step);
      ASSERT_TRUE(loss.ok()) << loss.status();
    }
    const cuda::sim::Statistics before = rank.gpu().statistics();
    const int64_t transfers = rank.nccl().num_transfers();
    const absl::StatusOr<Tensor> loss = trainer->Queue(setup.data, 4);
    ASSERT_TRUE(loss.ok()) << loss.status();
    const cuda::sim::Statistics after = rank.gpu().statistics();
    EXPECT_EQ(after.graph_launches, before.graph_launches + 1);
    EXPECT_EQ(after.kernel_launches, before.kernel_launches);
    EXPECT_EQ(after.synchronizations, before.synchronizations);
    EXPECT_EQ(rank.nccl().num_transfers(), transfers);
    EXPECT_TRUE(loss->Item<float>().ok());
  });
}

TEST(GpuDataParallelTest, ARankNeedsNoCompilerIfTheKernelsAreInTheFile) {
  TrainingSetup setup;
  const absl::StatusOr<std::string> embedded =
      aot::EmbedCudaKernels(BytesOf(setup.program), {.compute_capabilities = {90}, .sizes = {DimVector()}});
  ASSERT_TRUE(embedded.ok()) << embedded.status();
  const absl::StatusOr<std::shared_ptr<const Program>> program = Program::LoadBytes(*embedded);
  ASSERT_TRUE(program.ok()) << program.status();
  GpuRanks ranks(2);
  ranks.RunJoined({}, [&](GpuRank& rank) {
    absl::StatusOr<Session> session = Session::Create(
        *program, {.kernels = &CudaKernels(), .device = &rank.device(), .communicator = &rank.communicator()});
    ASSERT_TRUE(session.ok()) << session.status();
    std::vector<int64_t> sizes = setup.data.sizes;
    sizes.insert(sizes.begin(), kBatch);
    const auto results =
        session->Run("train_step", {*Tensor::Zeros(DType::kFloat32, sizes), *Tensor::Zeros(DType::kInt64, {kBatch})});
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_TRUE(session->Synchronize().ok());
    EXPECT_EQ(rank.device().kernels().statistics().compiled, 0);
  });
}

TEST(GpuDataParallelTest, StatesAreLeftUntilAllRanksHaveWaitedAfterAnErrorOfValues) {
  const TrainingSetup setup;
  GpuRanks ranks(2, Recorded());
  ranks.RunJoined({}, [&](GpuRank& rank) {
    absl::StatusOr<Trainer> trainer = Trainer::Create(rank, setup.program);
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    Session& session = trainer->session();
    for (int64_t step = 0; step < 3; ++step) ASSERT_TRUE(trainer->Step(setup.data, step).ok());
    const std::string states = StateBytes(session);
    // The rank with the error waits after each step, the other one after both.
    const bool has_error = rank.number() == 0;
    EXPECT_TRUE(trainer->Queue(setup.data, 3, has_error ? 100 : 0).ok());
    if (has_error) {
      EXPECT_EQ(session.Synchronize().code(), absl::StatusCode::kInvalidArgument);
    }
    EXPECT_TRUE(trainer->Queue(setup.data, 4).ok());
    const absl::Status status = session.Synchronize();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), has_error ? "rank 1 has an error" : "rank 0 has an error"))
        << status;
    EXPECT_EQ(StateBytes(session), states);
    const absl::StatusOr<float> loss = trainer->Step(setup.data, 5);
    EXPECT_TRUE(loss.ok()) << loss.status();
    EXPECT_NE(StateBytes(session), states);
  });
}

TEST(GpuDataParallelTest, TheOthersNameARankThatEndsAndAllResumeFromTheCheckpoint) {
  const TrainingSetup setup;
  constexpr int64_t kSaved = 3;  // steps before the checkpoint
  const std::vector<GpuResult> uninterrupted = TrainOnGpus(setup.program, setup.data, 2, Recorded(), /*records=*/true);
  const std::string checkpoint = absl::StrCat(NewFolder(), "/checkpoint.safetensors");
  {
    std::atomic<bool> is_saved = false;
    GpuRanks ranks(2, Recorded());
    ranks.RunJoined({}, [&](GpuRank& rank) {
      const absl::Cleanup done = [&] {
        if (rank.number() == 0) is_saved = true;  // on every path
      };
      absl::StatusOr<Trainer> trainer = Trainer::Create(rank, setup.program);
      ASSERT_TRUE(trainer.ok()) << trainer.status();
      for (int64_t step = 0; step < kSaved; ++step) ASSERT_TRUE(trainer->Step(setup.data, step).ok());
      if (rank.number() == 1) {
        while (!is_saved) std::this_thread::yield();
        ranks.group().End(1);
        return;
      }
      const absl::Status saved = trainer->session().SaveCheckpoint(checkpoint);
      is_saved = true;
      ASSERT_TRUE(saved.ok()) << saved;
      const absl::StatusOr<float> loss = trainer->Step(setup.data, kSaved);
      EXPECT_EQ(loss.status().code(), absl::StatusCode::kUnavailable) << loss.status();
      EXPECT_TRUE(absl::StrContains(loss.status().message(), "rank 1 has ended")) << loss.status();
      EXPECT_EQ(trainer->session().SaveCheckpoint(checkpoint).code(), absl::StatusCode::kUnavailable);
    });
  }
  GpuRanks ranks(2, Recorded());
  ranks.RunJoined({}, [&](GpuRank& rank) {
    absl::StatusOr<Trainer> trainer = Trainer::Create(rank, setup.program);
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    const absl::Status loaded = trainer->session().LoadCheckpoint(checkpoint);
    ASSERT_TRUE(loaded.ok()) << loaded;
    const GpuResult& expected = uninterrupted[static_cast<size_t>(rank.number())];
    for (int64_t step = kSaved; step < kSteps; ++step) {
      const absl::StatusOr<float> loss = trainer->Step(setup.data, step);
      ASSERT_TRUE(loss.ok()) << loss.status();
      EXPECT_EQ(*loss, expected.losses[static_cast<size_t>(step)]);
    }
    EXPECT_EQ(FloatStates(trainer->session()), expected.parameters);
  });
}

TEST(GpuDataParallelTest, ARankWithAnotherProgramIsRefusedByAll) {
  const TrainingSetup setup;
  const std::string other = CompileParallel(Perceptron(), kBatch, Config(kAdam), DataParallelOptions{});
  GpuRanks ranks(2);
  ranks.RunJoined({}, [&](GpuRank& rank) {
    const absl::Status status = Trainer::Create(rank, rank.number() == 0 ? setup.program : other).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "the ranks have different programs")) << status;
  });
}

}  // namespace
}  // namespace cotan::testing
