// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/collective/collective_plan.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/testing/run_plan.h"
#include "kernels/testing/host_tensor.h"

namespace cotan::cuda {
namespace {

using cotan::testing::FillRandom;
using cotan::testing::HostTensor;
using cotan::testing::RandomLayout;
using cotan::testing::TestSeed;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::RunOptions;
using testing::RunPlan;

serialization::Op CollectiveOp(serialization::Collective::Function function) {
  serialization::Op op;
  op.mutable_collective()->set_function(function);
  return op;
}

// Tensors in random layouts with random values.
struct Tensors {
  std::vector<HostTensor> tensors;
  std::vector<double> values;  // of all, in row-major order

  std::vector<HostTensor*> pointers() {
    std::vector<HostTensor*> all;
    for (HostTensor& tensor : tensors) all.push_back(&tensor);
    return all;
  }
};

Tensors DrawTensors(DType dtype, int count, std::mt19937_64& random, bool expand) {
  Tensors drawn;
  for (int i = 0; i < count; ++i) {
    DimVector sizes(random() % 4);
    for (int64_t& size : sizes) size = static_cast<int64_t>(random() % 6);
    HostTensor& tensor = drawn.tensors.emplace_back(dtype, RandomLayout(sizes, random, /*gaps=*/true, expand));
    FillRandom(tensor, random, -1, 1);
    const std::vector<double> values = tensor.Values();
    drawn.values.insert(drawn.values.end(), values.begin(), values.end());
  }
  return drawn;
}

absl::StatusOr<KernelPlan> PackInputs(const KernelRequest& request) { return PlanPack(request.inputs); }
absl::StatusOr<KernelPlan> UnpackOutputs(const KernelRequest& request) {
  return PlanUnpack(request.outputs, request.guarded_outputs);
}

TEST(CollectivePlanTest, TensorsOfAnyLayoutArePackedOneAfterAnother) {
  std::mt19937_64 random(TestSeed());
  const serialization::Op op = CollectiveOp(serialization::Collective::ALL_REDUCE);
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    for (const int count : {1, 5, 70}) {
      Tensors tensors = DrawTensors(dtype, count, random, /*expand=*/true);
      HostTensor bucket(dtype, {static_cast<int64_t>(tensors.values.size())});
      const auto result = RunPlan(PackInputs, op, tensors.pointers(), {&bucket}, {.seed = random()});
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(bucket.Values(), tensors.values);
    }
  }
}

TEST(CollectivePlanTest, ABucketIsUnpackedToTensorsOfAnyLayout) {
  std::mt19937_64 random(TestSeed());
  const serialization::Op op = CollectiveOp(serialization::Collective::ALL_REDUCE);
  for (const bool guarded : {false, true}) {
    Tensors tensors = DrawTensors(DType::kFloat32, 70, random, /*expand=*/false);
    HostTensor bucket(DType::kFloat32, {static_cast<int64_t>(tensors.values.size())}, tensors.values);
    const auto result =
        RunPlan(UnpackOutputs, op, {&bucket}, tensors.pointers(), {.guarded_outputs = guarded, .seed = random()});
    ASSERT_TRUE(result.ok()) << result.status();
    std::vector<double> unpacked;
    for (const HostTensor& tensor : tensors.tensors) {
      const std::vector<double> values = tensor.Values();
      unpacked.insert(unpacked.end(), values.begin(), values.end());
    }
    EXPECT_EQ(unpacked, tensors.values);
  }
}

TEST(CollectivePlanTest, GuardedTensorsAreLeftAsTheyAreAfterAnError) {
  const serialization::Op op = CollectiveOp(serialization::Collective::ALL_REDUCE);
  HostTensor bucket(DType::kFloat32, {2}, {5, 6});
  HostTensor state(DType::kFloat32, {2}, {1, 2});
  const auto result =
      RunPlan(UnpackOutputs, op, {&bucket, &state}, {&state}, {.guarded_outputs = true, .failed_before = true});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(state.Values(), ElementsAre(1, 2));
}

constexpr double kOp = -5;  // which collective runs

// Runs the sum of three ranks on rank 1, whose shard has `elements`. Returns the bucket.
absl::StatusOr<std::vector<double>> SumOfThree(DType dtype, bool mean, const std::vector<double>& received,
                                               const std::vector<double>& own_bucket, std::vector<double> marks) {
  const int64_t elements = static_cast<int64_t>(own_bucket.size()) / 3;
  HostTensor from(dtype, {3 * elements}, received);
  HostTensor bucket(dtype, {3 * elements}, own_bucket);
  HostTensor all_marks(DType::kInt32, {3, 2}, marks);
  HostTensor group(DType::kInt64, {4}, {3, 1, static_cast<double>(elements), kOp});
  const serialization::Op op = CollectiveOp(serialization::Collective::ALL_REDUCE);
  const auto plan = [&](const KernelRequest&) { return PlanSum(dtype, mean, elements); };
  const auto result = RunPlan(plan, op, {&from, &all_marks, &group, &bucket}, {&bucket});
  if (!result.ok()) return result.status();
  return bucket.Values();
}

TEST(CollectivePlanTest, ASumHasTheOrderOfTheRanks) {
  std::mt19937_64 random(TestSeed());
  std::uniform_real_distribution<float> draw(-1, 1);
  constexpr size_t kElements = 300;
  std::vector<double> received(3 * kElements), bucket(3 * kElements);
  for (double& value : received) value = draw(random);
  for (double& value : bucket) value = draw(random);
  for (const bool mean : {false, true}) {
    const auto f32 = SumOfThree(DType::kFloat32, mean, received, bucket, {kOp, 0, kOp, 0, kOp, 0});
    const auto f64 = SumOfThree(DType::kFloat64, mean, received, bucket, {kOp, 0, kOp, 0, kOp, 0});
    ASSERT_TRUE(f32.ok()) << f32.status();
    ASSERT_TRUE(f64.ok()) << f64.status();
    std::vector<double> expected32 = bucket, expected64 = bucket;
    for (size_t i = 0; i < kElements; ++i) {
      const double a = received[i], b = bucket[kElements + i], c = received[2 * kElements + i];
      const float sum32 = static_cast<float>(a) + static_cast<float>(b) + static_cast<float>(c);
      expected32[kElements + i] = mean ? sum32 / 3.0f : sum32;
      expected64[kElements + i] = mean ? (a + b + c) / 3 : a + b + c;
    }
    EXPECT_EQ(*f32, expected32);
    EXPECT_EQ(*f64, expected64);
  }
}

TEST(CollectivePlanTest, AMarkOfAnotherRankIsAnErrorThatNamesIt) {
  const std::vector<double> zeros(6);
  const absl::Status other = SumOfThree(DType::kFloat32, false, zeros, zeros, {kOp, 0, kOp, 0, kOp, 1}).status();
  EXPECT_EQ(other.code(), absl::StatusCode::kFailedPrecondition) << other;
  EXPECT_THAT(std::string(other.message()), HasSubstr("rank 2 has an error of values"));
  // Its own error is recorded already.
  EXPECT_TRUE(SumOfThree(DType::kFloat32, false, zeros, zeros, {kOp, 0, kOp, 1, kOp, 0}).ok());
}

TEST(CollectivePlanTest, ARankThatRunsAnotherCollectiveIsAnErrorThatNamesIt) {
  const std::vector<double> zeros(6);
  const absl::Status other = SumOfThree(DType::kFloat32, false, zeros, zeros, {6, 0, kOp, 0, kOp, 0}).status();
  EXPECT_EQ(other.code(), absl::StatusCode::kFailedPrecondition) << other;
  EXPECT_THAT(std::string(other.message()), HasSubstr("rank 0 runs another collective"));
}

TEST(CollectivePlanTest, ARankMarksWhatItRunsAndWhetherAnOpHasFailed) {
  const serialization::Op op = CollectiveOp(serialization::Collective::ALL_REDUCE);
  const auto plan = [](const KernelRequest&) { return PlanMark(); };
  for (const bool failed : {false, true}) {
    HostTensor group(DType::kInt64, {4}, {3, 1, 10, kOp});
    HostTensor marks(DType::kInt32, {3, 2}, {7, 7, 7, 7, 7, 7});
    const auto result = RunPlan(plan, op, {&group, &marks}, {&marks}, {.failed_before = failed});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_THAT(marks.Values(), ElementsAre(7, 7, kOp, failed ? 1 : 0, 7, 7));
  }
}

TEST(CollectivePlanTest, AShardIsAPartOfTheBucketWithZerosBehindIt) {
  const serialization::Op op = CollectiveOp(serialization::Collective::SHARD);
  HostTensor a(DType::kFloat32, {3}, {1, 2, 3});
  HostTensor b(DType::kFloat32, {2}, {4, 5});
  const std::vector<std::vector<double>> expected = {{1, 2}, {3, 4}, {5, 0}, {0, 0}};
  for (size_t rank = 0; rank < expected.size(); ++rank) {
    HostTensor shard(DType::kFloat32, {2});
    const auto plan = [&](const KernelRequest& request) { return PlanShard(request, static_cast<int64_t>(2 * rank)); };
    const auto result = RunPlan(plan, op, {&a, &b}, {&shard});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(shard.Values(), expected[rank]);
  }
}

}  // namespace
}  // namespace cotan::cuda
