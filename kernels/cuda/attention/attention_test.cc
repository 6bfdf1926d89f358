// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/attention/attention.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/attention/attention_case.h"
#include "kernels/cuda/testing/run_plan.h"
#include "kernels/testing/host_tensor.h"
#include "kernels/testing/random_case.h"
#include "testing/tolerance.h"

namespace cotan::cuda {
namespace {

using cotan::testing::HostTensor;
using cotan::testing::TestSeed;
using ::testing::Each;
using ::testing::ElementsAre;
using Bias = AttentionCase::Bias;
using Layout = AttentionCase::Layout;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

void ExpectReference(const AttentionCase& c, std::mt19937_64& random) {
  SCOPED_TRACE(c.ToString());
  AttentionOperands operands(c, random);
  ASSERT_TRUE(operands.MakeExpected().ok());
  const absl::StatusOr<double> error = RunForward(operands);
  ASSERT_TRUE(error.ok()) << error.status();
  EXPECT_LE(*error, cotan::testing::kMatmul);
}

TEST(AttentionTest, EachDTypeMaskAndBias) {
  std::mt19937_64 random(TestSeed());
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    ExpectReference({.dtype = dtype, .queries = 17, .keys = 33, .size = 8, .value_size = 8}, random);
    ExpectReference({.dtype = dtype,
                     .queries = 33,
                     .keys = 65,
                     .size = 20,
                     .value_size = 5,
                     .is_causal = true,
                     .bias = Bias::kFull,
                     .layout = Layout::kHeadsInside},
                    random);
    ExpectReference({.dtype = dtype,
                     .batch = 2,
                     .queries = 65,
                     .keys = 17,
                     .size = 5,
                     .value_size = 20,
                     .is_causal = true,
                     .bias = Bias::kBroadcast,
                     .layout = Layout::kRandom},
                    random);
  }
}

TEST(AttentionTest, SizesAroundTiles) {
  std::mt19937_64 random(TestSeed());
  for (const int64_t queries : {1, 16, 64, 65}) {
    for (const int64_t keys : {1, 32, 66}) {
      ExpectReference({.heads = 1, .queries = queries, .keys = keys, .size = 12, .value_size = 4, .is_causal = true},
                      random);
    }
  }
}

TEST(AttentionTest, ColumnsAroundVectorsAndChunks) {
  std::mt19937_64 random(TestSeed());
  for (const DType dtype : {DType::kFloat16, DType::kFloat32, DType::kFloat64}) {
    for (const int64_t size : {1, 64, 80, 130}) {
      const int64_t value_size = size == 80 ? 129 : size;
      ExpectReference({.dtype = dtype, .heads = 1, .queries = 20, .keys = 40, .size = size, .value_size = value_size},
                      random);
    }
  }
}

TEST(AttentionTest, LargeTilesFillAGpu) {
  std::mt19937_64 random(TestSeed());
  ExpectReference({.batch = 1, .heads = 64, .queries = 67, .keys = 3, .size = 2, .value_size = 2}, random);
}

TEST(AttentionTest, RandomSizesAndLayouts) {
  std::mt19937_64 random(TestSeed());
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  for (int round = 0; round < 16; ++round) {
    ExpectReference({.dtype = random() % 4 == 0 ? DType::kBFloat16 : DType::kFloat32,
                     .batch = pick(1, 2),
                     .heads = pick(1, 3),
                     .queries = pick(1, 100),
                     .keys = pick(1, 100),
                     .size = pick(1, 40),
                     .value_size = pick(1, 40),
                     .is_causal = random() % 2 == 0,
                     .bias = static_cast<Bias>(random() % 3),
                     .layout = static_cast<Layout>(random() % 3)},
                    random);
  }
}

TEST(AttentionTest, OrderOfBlocksDoesNotChangeBits) {
  std::mt19937_64 random(TestSeed());
  AttentionOperands operands({.queries = 70, .keys = 90, .size = 16, .value_size = 16, .bias = Bias::kFull}, random);
  std::vector<HostTensor> first;
  ASSERT_TRUE(RunForward(operands, {}, &first).ok());
  for (const uint64_t seed : {1, 2}) {
    std::vector<HostTensor> again;
    ASSERT_TRUE(RunForward(operands, {.seed = seed}, &again).ok());
    EXPECT_EQ(first[0].bytes(), again[0].bytes());
    EXPECT_EQ(first[1].bytes(), again[1].bytes());
  }
}

TEST(AttentionTest, KeysAreReadOncePerTileOfQueries) {
  std::mt19937_64 random(TestSeed());
  const int64_t queries = 64, keys = 128, size = 32, heads = 2;
  AttentionOperands operands({.heads = heads, .queries = queries, .keys = keys, .size = size, .value_size = size},
                             random);
  testing::RunResult run;
  ASSERT_TRUE(RunForward(operands, {}, nullptr, &run).ok());
  // Two tiles of 32 queries per head.
  const auto elements = static_cast<uint64_t>(heads * size * (queries + 2 * 2 * keys));
  EXPECT_EQ(run.counters.global_load_bytes, elements * 4);
  EXPECT_EQ(run.counters.global_load_sectors * 32, elements * 4);
  EXPECT_EQ(run.counters.global_store_bytes, static_cast<uint64_t>(heads * queries * (size + 1)) * 4);
  EXPECT_EQ(run.launches, 1);
}

TEST(AttentionTest, SharedMemoryIsReadWithFewConflicts) {
  std::mt19937_64 random(TestSeed());
  AttentionOperands operands({.heads = 1, .queries = 64, .keys = 64, .size = 64, .value_size = 64}, random);
  testing::RunResult run;
  ASSERT_TRUE(RunForward(operands, {}, nullptr, &run).ok());
  EXPECT_LE(static_cast<double>(run.counters.shared_bank_conflicts),
            0.1 * static_cast<double>(run.counters.shared_accesses));
}

TEST(AttentionTest, UnalignedOperandsAreReadByElement) {
  // An operand that begins 2 bytes after a vector: the slice of a projection.
  std::mt19937_64 random(TestSeed());
  AttentionOperands operands({.dtype = DType::kFloat16, .heads = 1, .size = 8, .value_size = 8}, random);
  ASSERT_TRUE(operands.MakeExpected().ok());
  HostTensor result(DType::kFloat16, operands.result.layout());
  const auto plan = [](const KernelRequest& request) -> absl::StatusOr<KernelPlan> {
    absl::StatusOr<KernelPlan> plan = PlanFlashAttention(request);
    std::get<KernelLaunch>(plan->steps[0]).arguments[0].offset = 2;
    return plan;
  };
  HostTensor q(DType::kFloat16, {{1, 1, 18, 8}, {144, 144, 8, 1}});
  std::vector<double> values(1, 0.5);
  for (double x : operands.q.Values()) values.push_back(x);
  values.resize(18 * 8);
  q.SetValues(values);
  operands.q = q;
  StridedLayout layout = q.layout();
  layout.sizes[2] = 17;
  const auto planned = [&](const KernelRequest& request) {
    std::vector<TensorSpec> inputs(request.inputs.begin(), request.inputs.end());
    inputs[0].layout = layout;
    return plan({.op = request.op, .inputs = inputs, .outputs = request.outputs, .symbols = {}});
  };
  const auto run = testing::RunPlan(planned, operands.ForwardOp(), operands.ForwardInputs(), {&result});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_LE(cotan::testing::ErrorInUnits(result, operands.result.Values()), cotan::testing::kMatmul);
}

TEST(AttentionTest, LargeScoresDoNotOverflow) {
  HostTensor q(DType::kFloat32, {1, 1, 1, 1}, {1000});
  HostTensor k(DType::kFloat32, {1, 1, 2, 1}, {1, -1});
  HostTensor v(DType::kFloat32, {1, 1, 2, 1}, {3, 4});
  HostTensor result(DType::kFloat32, {1, 1, 1, 1});
  serialization::Op op;
  op.mutable_attention()->set_scale(1);
  ASSERT_TRUE(testing::RunPlan(PlanFlashAttention, op, {&q, &k, &v}, {&result}).ok());
  EXPECT_THAT(result.Values(), ElementsAre(3));
}

// A row whose scores are all NaN, and a NaN among the scores of a row.
TEST(AttentionTest, NanReachesTheRowsThatReadIt) {
  constexpr int kKeys = 300;
  for (const bool is_of_key : {false, true}) {
    HostTensor q(DType::kFloat32, {1, 1, 2, 1}, {is_of_key ? 1 : kNan, 1});
    std::vector<double> keys(kKeys, 1);
    if (is_of_key) keys[0] = kNan;
    HostTensor k(DType::kFloat32, {1, 1, kKeys, 1}, keys);
    HostTensor v(DType::kFloat32, {1, 1, kKeys, 1}, std::vector<double>(kKeys, 2));
    HostTensor result(DType::kFloat32, {1, 1, 2, 1});
    HostTensor logsumexp(DType::kFloat32, {1, 1, 2});
    serialization::Op op;
    op.mutable_attention()->set_scale(1);
    ASSERT_TRUE(testing::RunPlan(PlanFlashAttention, op, {&q, &k, &v}, {&result, &logsumexp}).ok());
    EXPECT_TRUE(std::isnan(result.Values()[0]));
    EXPECT_TRUE(std::isnan(logsumexp.Values()[0]));
    EXPECT_EQ(std::isnan(result.Values()[1]), is_of_key);
  }
}

TEST(AttentionTest, QueryThatSeesNothingGivesZeros) {
  HostTensor q(DType::kFloat32, {1, 1, 2, 1}, {1, 1});
  HostTensor k(DType::kFloat32, {1, 1, 2, 1}, {1, 1});
  HostTensor v(DType::kFloat32, {1, 1, 2, 1}, {3, 5});
  HostTensor bias(DType::kFloat32, {2, 2}, {-kInfinity, -kInfinity, 0, 0});
  HostTensor result(DType::kFloat32, {1, 1, 2, 1});
  HostTensor logsumexp(DType::kFloat32, {1, 1, 2});
  serialization::Op op;
  op.mutable_attention()->set_scale(1);
  ASSERT_TRUE(testing::RunPlan(PlanFlashAttention, op, {&q, &k, &v, &bias}, {&result, &logsumexp}).ok());
  EXPECT_THAT(result.Values(), ElementsAre(0, 4));
  EXPECT_EQ(logsumexp.Values()[0], -kInfinity);
}

TEST(AttentionTest, OneTensorMayBeAllOperands) {
  std::mt19937_64 random(TestSeed());
  AttentionOperands operands({.queries = 20, .keys = 20}, random);
  HostTensor result(DType::kFloat32, operands.result.layout());
  HostTensor expected(DType::kFloat32, operands.result.layout());
  HostTensor* const q = &operands.q;
  HostTensor copies[] = {*q, *q};
  ASSERT_TRUE(testing::RunPlan(PlanFlashAttention, operands.ForwardOp(), {q, q, q}, {&result}).ok());
  ASSERT_TRUE(
      testing::RunPlan(PlanFlashAttention, operands.ForwardOp(), {q, &copies[0], &copies[1]}, {&expected}).ok());
  EXPECT_EQ(result.bytes(), expected.bytes());
}

TEST(AttentionTest, EmptyOperands) {
  std::mt19937_64 random(TestSeed());
  ExpectReference({.keys = 0}, random);
  ExpectReference({.size = 0}, random);
  ExpectReference({.value_size = 0}, random);
  for (const AttentionCase& c : {AttentionCase{.batch = 0}, AttentionCase{.queries = 0}}) {
    AttentionOperands operands(c, random);
    testing::RunResult run;
    ASSERT_TRUE(RunForward(operands, {}, nullptr, &run).ok());
    EXPECT_EQ(run.launches, 0);
  }
}

TEST(AttentionTest, GuardedOutputsStayAfterAnError) {
  std::mt19937_64 random(TestSeed());
  AttentionOperands operands({.bias = Bias::kFull}, random);
  ASSERT_TRUE(operands.MakeExpected().ok());
  const absl::StatusOr<double> error = RunForward(operands, {.guarded_outputs = true});
  ASSERT_TRUE(error.ok()) << error.status();
  EXPECT_LE(*error, cotan::testing::kMatmul);
  std::vector<HostTensor> outputs;
  ASSERT_TRUE(RunForward(operands, {.guarded_outputs = true, .failed_before = true}, &outputs).ok());
  for (const HostTensor& output : outputs) EXPECT_THAT(output.bytes(), Each(static_cast<char>(0xa5)));
}

// The plan of operands that exist in no memory.
absl::StatusOr<KernelPlan> PlanOf(DType dtype, const DimVector& q, const DimVector& k) {
  const auto spec = [&](const DimVector& sizes) { return TensorSpec{dtype, {sizes, ContiguousStrides(sizes)}}; };
  const std::vector<TensorSpec> inputs = {spec(q), spec(k), spec(k)};
  const std::vector<TensorSpec> outputs = {spec(q)};
  serialization::Op op;
  op.mutable_attention()->set_scale(1);
  return PlanFlashAttention({.op = op, .inputs = inputs, .outputs = outputs, .symbols = {}});
}

TEST(AttentionTest, HugeOperandsAreIndexedWith64Bits) {
  const auto small = PlanOf(DType::kFloat32, {1, 1, 1 << 20, 64}, {1, 1, 64, 64});
  const auto large = PlanOf(DType::kFloat32, {1, 1, int64_t{1} << 26, 64}, {1, 1, 64, 64});
  const auto blocks = PlanOf(DType::kFloat32, {int64_t{1} << 32, 1, 1, 1}, {int64_t{1} << 32, 1, 1, 1});
  ASSERT_TRUE(small.ok() && large.ok() && blocks.ok());
  const auto& launch = [](const absl::StatusOr<KernelPlan>& plan) -> const KernelLaunch& {
    return std::get<KernelLaunch>(plan->steps[0]);
  };
  EXPECT_THAT(launch(small).source.text, ::testing::HasSubstr("using Index = int;"));
  EXPECT_THAT(launch(large).source.text, ::testing::HasSubstr("using Index = long long;"));
  EXPECT_THAT(launch(blocks).source.text, ::testing::HasSubstr("using Block = long long;"));
  EXPECT_EQ(launch(blocks).grid[0], 2147483647u);
}

TEST(AttentionTest, OtherDTypesAreRejected) {
  EXPECT_EQ(PlanOf(DType::kInt32, {1, 1, 2, 2}, {1, 1, 2, 2}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(PlanOf(DType::kComplex64, {1, 1, 2, 2}, {1, 1, 2, 2}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cotan::cuda
