// SPDX-License-Identifier: Apache-2.0

// Ranks that end, resume, or have another program; random numbers by rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/test_seed.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/session.h"
#include "testing/distributed/parallel_model.h"
#include "testing/distributed/ranks.h"

namespace cotan::testing {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBatch = 4;

aot::OptimizerConfig Adam() {
  aot::OptimizerConfig config;
  config.options = aot::AdamOptions{.lr = 0.01};
  return config;
}

aot::DataParallelOptions Averaged() { return {.bucket_bytes = 512}; }
aot::DataParallelOptions Sharded(int ranks) { return {.bucket_bytes = 512, .shard_optimizer = true, .ranks = ranks}; }

std::string RankFile(const std::string& folder, int rank, const std::string& what) {
  return BytesOf(absl::StrCat(folder, "/", rank, ".", what));
}

TEST(FailuresTest, TheOthersNameARankThatWasKilledAndKeepTheirStates) {
  constexpr int kRanks = 4, kVictim = 2;
  constexpr int64_t kSteps = 6, kEnd = 3;
  const ModelCase model = Perceptron();
  const RankData data = DrawData(model, kRanks, kBatch, kSteps, TestSeed());
  const std::string program = CompileParallel(model, kBatch, Adam(), Sharded(kRanks));
  const std::string whole = NewFolder(), broken = NewFolder(), resumed = NewFolder();
  RunRanks(kRanks, whole, program, data);
  const std::vector<RankResult> results = RunRanks(
      kRanks, broken, program, data, {absl::StrCat("--end_rank=", kVictim), absl::StrCat("--end_step=", kEnd)});
  for (int r = 0; r < kRanks; ++r) {
    if (r == kVictim) continue;
    const RankResult& result = results[static_cast<size_t>(r)];
    EXPECT_THAT(result.error, HasSubstr("UNAVAILABLE")) << "rank " << r;
    EXPECT_THAT(result.error, HasSubstr("rank 2 has ended")) << "rank " << r;
    EXPECT_THAT(result.error, HasSubstr("method 'train_step'")) << "rank " << r;
    // The failed step has changed no state.
    EXPECT_EQ(RankFile(broken, r, "error"), RankFile(broken, r, "2")) << "rank " << r;
  }
  const std::vector<RankResult> again =
      RunRanks(kRanks, resumed, program, data, {absl::StrCat("--load=", broken, "/%r.2"), "--skip=3"});
  for (int r = 0; r < kRanks; ++r) {
    EXPECT_TRUE(again[static_cast<size_t>(r)].is_done) << again[static_cast<size_t>(r)].error;
    EXPECT_EQ(RankFile(resumed, r, "5"), RankFile(whole, r, "5")) << "rank " << r;
  }
}

// The victim dies wherever it is: while it computes, sends or receives.
TEST(FailuresTest, ARankMayBeKilledAtAnyMoment) {
  constexpr int kRanks = 2;
  const ModelCase model = Perceptron();
  const RankData data = DrawData(model, kRanks, kBatch, /*steps=*/400, TestSeed());
  const std::string program = CompileParallel(model, kBatch, Adam(), Averaged());
  for (const int64_t microseconds : {0, 3000, 10000, 30000}) {
    const std::string folder = NewFolder();
    const std::vector<RankResult> results =
        RunRanks(kRanks, folder, program, data, {"--end_rank=0", absl::StrCat("--end_after_us=", microseconds)});
    EXPECT_THAT(results[1].error, HasSubstr("rank 0 has ended")) << microseconds;
    const std::string last = absl::StrCat(results[1].losses.size() - 1);
    const std::string after = RankFile(folder, 1, "error");
    EXPECT_FALSE(after.empty());
    EXPECT_EQ(after, RankFile(folder, 1, last)) << microseconds;
  }
}

TEST(FailuresTest, NewsOfARankComeWithoutACollective) {
  const std::vector<RankResult> ended = RunRanks(3, NewFolder(), "", RankData(), {"--end_rank=1", "--watch=ended"});
  for (const int survivor : {0, 2}) {
    EXPECT_THAT(ended[static_cast<size_t>(survivor)].error, HasSubstr("rank 1 has ended"));
  }
  const std::vector<RankResult> left = RunRanks(2, NewFolder(), "", RankData(), {"--end_rank=1", "--watch=left"});
  EXPECT_THAT(left[0].error, HasSubstr("rank 1 has left the group"));
  EXPECT_TRUE(left[1].is_done);
}

TEST(FailuresTest, ARankWithAnotherProgramIsRefusedByAll) {
  constexpr int kRanks = 2;
  const ModelCase model = Perceptron();
  const RankData data = DrawData(model, kRanks, kBatch, /*steps=*/1, TestSeed());
  const std::string folder = NewFolder();
  aot::OptimizerConfig other = Adam();
  other.clip_norm = 1;
  const std::string first = CompileParallel(model, kBatch, Adam(), Averaged());
  const std::string second = CompileParallel(model, kBatch, other, Averaged());
  std::filesystem::copy_file(first, folder + "/0.cotan");
  std::filesystem::copy_file(second, folder + "/1.cotan");
  for (const RankResult& result : RunRanks(kRanks, folder, folder + "/%r.cotan", data)) {
    EXPECT_THAT(result.error, HasSubstr("FAILED_PRECONDITION: the ranks have different programs: rank 0 has "));
    EXPECT_THAT(result.error, HasSubstr(", rank 1 has "));
  }
}

TEST(FailuresTest, AProgramForAnotherNumberOfRanksIsRefused) {
  const ModelCase model = Perceptron();
  const RankData data = DrawData(model, /*ranks=*/2, kBatch, /*steps=*/1, TestSeed());
  const std::string program = CompileParallel(model, kBatch, Adam(), Sharded(4));
  for (const RankResult& result : RunRanks(2, NewFolder(), program, data)) {
    EXPECT_THAT(result.error, HasSubstr("compiled for 4 ranks (DataParallelOptions.ranks), but 2 run"));
  }
}

TEST(FailuresTest, ACheckpointOfAnotherRanksShardIsRefused) {
  constexpr int kRanks = 2;
  const ModelCase model = Perceptron();
  const RankData data = DrawData(model, kRanks, kBatch, /*steps=*/2, TestSeed());
  const std::string program = CompileParallel(model, kBatch, Adam(), Sharded(kRanks));
  const std::string folder = NewFolder();
  RunRanks(kRanks, folder, program, data);
  const std::vector<RankResult> results =
      RunRanks(kRanks, NewFolder(), program, data, {absl::StrCat("--load=", folder, "/0.0"), "--skip=1"});
  EXPECT_THAT(results[1].error, HasSubstr("the checkpoint is of another rank"));
}

TEST(FailuresTest, ASessionWithoutCommunicatorRefusesTheProgram) {
  const std::string path = CompileParallel(Perceptron(), kBatch, Adam(), Averaged());
  const auto program = Program::Load(path);
  ASSERT_TRUE(program.ok()) << program.status();
  const auto session = Session::Create(*program, {.kernels = &CpuKernels()});
  EXPECT_EQ(session.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(session.status().message()),
              HasSubstr("method 'train_step' was compiled for data parallel training"));
}

// Runs the first step of a program alone, with numbers of the generator from block `offset` on. Returns the outputs.
std::string OutputsAlone(const std::string& path, const RankData& data, int64_t first, int64_t offset) {
  const auto program = Program::Load(path);
  EXPECT_TRUE(program.ok()) << program.status();
  auto session = Session::Create(*program, {.kernels = &CpuKernels(), .threads = 1});
  EXPECT_TRUE(session.ok()) << session.status();
  const auto rng = session->Rng();
  EXPECT_TRUE(rng.ok() && session->SetRng({.seed = rng->seed, .offset = offset}).ok());
  const auto [input, label] = RowsOf(data, first, data.batch);
  const auto x = Tensor::Borrow(absl::MakeSpan(input.data_ptr<float>(), static_cast<size_t>(input.numel())),
                                {data.batch, data.sizes[0]});
  const auto y =
      Tensor::Borrow(absl::MakeSpan(label.data_ptr<int64_t>(), static_cast<size_t>(data.batch)), {data.batch});
  EXPECT_TRUE(x.ok() && y.ok());
  const auto results = session->Run("train_step", {*x, *y});
  EXPECT_TRUE(results.ok()) << results.status();
  return {static_cast<const char*>((*results)[0].address()),
          static_cast<size_t>((*results)[0].num_elements()) * sizeof(float)};
}

TEST(RandomNumbersTest, EachRankDrawsItsOwnFromOneSeed) {
  constexpr int kRanks = 2;
  const ModelCase model = PerceptronWithDropout();
  const RankData data = DrawData(model, kRanks, kBatch, /*steps=*/1, TestSeed());
  const std::string program = CompileParallel(model, kBatch, Adam(), Averaged());
  const std::string alone = CompileParallel(model, kBatch, Adam(), std::nullopt);
  const std::string folder = NewFolder(), repeated = NewFolder();
  RunRanks(kRanks, folder, program, data);
  RunRanks(kRanks, repeated, program, data);
  for (int r = 0; r < kRanks; ++r) {
    EXPECT_EQ(RankFile(folder, r, "0"), RankFile(repeated, r, "0"));
    const std::string outputs = RankFile(folder, r, "outputs");
    EXPECT_EQ(outputs, OutputsAlone(alone, data, r * kBatch, r * (int64_t{1} << 46))) << "rank " << r;
    EXPECT_NE(outputs, OutputsAlone(alone, data, r * kBatch, (1 - r) * (int64_t{1} << 46))) << "rank " << r;
  }
}

TEST(RandomNumbersTest, AllRanksResumeFromTheCheckpointOfOne) {
  constexpr int kRanks = 2;
  constexpr int64_t kSteps = 4;
  const ModelCase model = PerceptronWithDropout();
  const RankData data = DrawData(model, kRanks, kBatch, kSteps, TestSeed());
  const std::string program = CompileParallel(model, kBatch, Adam(), Averaged());
  const std::string whole = NewFolder(), resumed = NewFolder();
  RunRanks(kRanks, whole, program, data);
  RunRanks(kRanks, resumed, program, data, {absl::StrCat("--load=", whole, "/0.1"), "--skip=2"});
  for (int r = 0; r < kRanks; ++r) {
    EXPECT_FALSE(RankFile(whole, r, "3").empty());
    EXPECT_EQ(RankFile(resumed, r, "3"), RankFile(whole, r, "3")) << "rank " << r;
  }
}

}  // namespace
}  // namespace cotan::testing
