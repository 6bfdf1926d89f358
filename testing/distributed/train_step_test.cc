// SPDX-License-Identifier: Apache-2.0

// Several ranks train as one process with the whole batch does, and each time with the same bits.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/test_seed.h"
#include "testing/distributed/parallel_case.h"
#include "testing/distributed/parallel_model.h"
#include "testing/distributed/ranks.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

using aot::AdamOptions;
using aot::DataParallelOptions;
using aot::OptimizerConfig;
using aot::OptimizerOptions;
using aot::SgdOptions;

OptimizerConfig Clipped(OptimizerOptions options) {
  OptimizerConfig config = ClippedByNorm(options);
  config.clip_value = 0.1;
  return config;
}

OptimizerConfig Scaled(OptimizerOptions options) {
  OptimizerConfig config = Config(options);
  config.loss_scaling.emplace();
  return config;
}

OptimizerConfig Grouped(OptimizerOptions options, OptimizerOptions biases) {
  OptimizerConfig config = Config(options);
  config.groups.push_back({{"*.bias"}, biases});
  return config;
}

const SgdOptions kSgd = {.lr = 0.1};
const AdamOptions kAdamW = {.lr = 0.01, .weight_decay = 0.1, .decoupled_weight_decay = true};

std::vector<ParallelCase> Cases() {
  DataParallelOptions both = Sharded(2);
  both.sync_batch_norm = true;
  return {
      {"sgd_2", 2, Perceptron(), Config(kSgd), {}},
      {"momentum_4", 4, Perceptron(), Config(kMomentum), Averaged()},
      {"adam_2", 2, Perceptron(), Config(kAdam), Averaged()},
      {"clipped_4", 4, Perceptron(), Clipped(kMomentum), Averaged()},
      {"accumulated_2", 2, Perceptron(), Clipped(kAdam), Averaged(), 2},
      {"scaled_2", 2, Perceptron(), Scaled(kSgd), Averaged()},
      {"sharded_adam_2", 2, Perceptron(), Config(kAdamW), Sharded(2)},
      {"sharded_clipped_4", 4, Perceptron(), Clipped(kAdam), Sharded(4)},
      {"sharded_groups_2", 2, Perceptron(), Grouped(kMomentum, kMomentum), Sharded(2)},
      {"sharded_scaled_2", 2, Perceptron(), Scaled(kMomentum), Sharded(2)},
      {"sharded_accumulated_2", 2, Perceptron(), Config(kAdam), Sharded(2), 2},
      {"synchronised_2", 2, NormalizedNetwork(), Config(kMomentum), Synchronised()},
      {"synchronised_4", 4, NormalizedNetwork(), Config(kSgd), Synchronised()},
      {"synchronised_sharded_2", 2, NormalizedNetwork(), Config(kMomentum), both},
  };
}

class DataParallel : public ::testing::TestWithParam<ParallelCase> {};

// Parameters, statistics of batch norm, and slots unless each rank has a share of them.
void ExpectEqualStates(const std::map<std::string, std::vector<float>>& states,
                       const std::map<std::string, torch::Tensor>& whole, bool has_shards) {
  for (const auto& [name, expected] : whole) {
    if (expected.scalar_type() != torch::kFloat) continue;
    const auto found = states.find(name);
    const bool is_slot = absl::StartsWith(name, "optimizer.");
    EXPECT_EQ(found != states.end(), !(is_slot && has_shards)) << name;
    if (found == states.end()) continue;
    EXPECT_LE(StateError(found->second, expected), kModelDrift) << name;
  }
}

// The rank's slots of each kind have 1 / ranks of the elements of all. Shards of a bucket have one size.
void ExpectShareOfSlots(const std::map<std::string, std::vector<float>>& states,
                        const std::map<std::string, torch::Tensor>& whole, int ranks) {
  std::map<std::string, int64_t> elements, held, shards;  // by kind
  const auto kind_of = [](const std::string& name) { return name.substr(name.rfind('.')); };
  for (const auto& [name, tensor] : whole) {
    if (absl::StartsWith(name, "optimizer.")) elements[kind_of(name)] += tensor.numel();
  }
  for (const auto& [name, values] : states) {
    if (!absl::StartsWith(name, "optimizer.shard.")) continue;
    held[kind_of(name)] += static_cast<int64_t>(values.size());
    ++shards[kind_of(name)];
  }
  EXPECT_FALSE(elements.empty());
  for (const auto& [kind, count] : elements) {
    EXPECT_GE(held[kind] * ranks, count) << kind;
    EXPECT_LT(held[kind] * ranks, count + shards[kind] * ranks) << kind;
  }
}

TEST_P(DataParallel, EqualsTheWholeBatchInOneProcess) {
  const ParallelCase& parallel = GetParam();
  constexpr int64_t kBatch = 5, kSteps = 6;
  const uint64_t seed = TestSeed();
  const RankData data = DrawData(parallel.model, parallel.ranks, kBatch, kSteps, seed);
  const std::string program =
      CompileParallel(parallel.model, kBatch, parallel.optimizer, parallel.parallel, parallel.accumulate > 0);
  ASSERT_FALSE(program.empty());
  const Whole whole = TrainWhole(parallel, data);

  const std::string first = NewFolder(), second = NewFolder();
  const std::vector<std::string> flags = {absl::StrCat("--accumulate=", parallel.accumulate)};
  const std::vector<RankResult> results = RunRanks(parallel.ranks, first, program, data, flags);
  RunRanks(parallel.ranks, second, program, data, flags);
  const std::string last = absl::StrCat(".", kSteps - 1);
  for (int r = 0; r < parallel.ranks; ++r) {
    const RankResult& result = results[static_cast<size_t>(r)];
    ASSERT_TRUE(result.is_done) << "rank " << r << ": " << result.error;
    ASSERT_EQ(result.losses.size(), whole.losses.size());
    // The loss of "accumulate" is the rank's own.
    for (size_t i = 0; i < whole.losses.size() && parallel.accumulate == 0; ++i) {
      EXPECT_LE(LossError(result.losses[i], whole.losses[i]), kModelDrift) << "step " << i << " of rank " << r;
      EXPECT_EQ(result.losses[i], results[0].losses[i]) << "step " << i << " of rank " << r;
    }
    const std::string checkpoint = BytesOf(absl::StrCat(first, "/", r, last));
    EXPECT_EQ(checkpoint, BytesOf(absl::StrCat(second, "/", r, last))) << "rank " << r << " is different when repeated";
    const auto states = StatesOf(absl::StrCat(first, "/", r, last));
    SCOPED_TRACE(absl::StrCat("rank ", r));
    ExpectEqualStates(states, whole.states, parallel.parallel.shard_optimizer);
    if (parallel.parallel.shard_optimizer) ExpectShareOfSlots(states, whole.states, parallel.ranks);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, DataParallel, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

TEST(TransportTest, RanksOverTcpHaveTheBitsOfRanksOverSharedMemory) {
  constexpr int kRanks = 4;
  constexpr int64_t kBatch = 5, kSteps = 3;
  const ModelCase model = Perceptron();
  const RankData data = DrawData(model, kRanks, kBatch, kSteps, TestSeed());
  const std::string program = CompileParallel(model, kBatch, Clipped(kAdam), Sharded(kRanks));
  const std::string memory = NewFolder(), tcp = NewFolder();
  RunRanks(kRanks, memory, program, data);
  const std::vector<RankResult> results = RunRanks(kRanks, tcp, program, data, {}, Transport::kLoopbackTcp);
  for (int r = 0; r < kRanks; ++r) {
    const RankResult& result = results[static_cast<size_t>(r)];
    ASSERT_TRUE(result.is_done) << "rank " << r << ": " << result.error << "\n" << BytesOf(tcp + "/mpirun.log");
    const std::string last = absl::StrCat("/", r, ".", kSteps - 1);
    EXPECT_EQ(BytesOf(tcp + last), BytesOf(memory + last)) << "rank " << r;
  }
}

}  // namespace
}  // namespace cotan::testing
