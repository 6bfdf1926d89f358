// SPDX-License-Identifier: Apache-2.0

#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/attention_case.h"
#include "kernels/cuda/testing/run_plan.h"
#include "kernels/testing/host_tensor.h"
#include "testing/tolerance.h"

namespace cotan::cuda {
namespace {

using cotan::testing::HostTensor;
using cotan::testing::TestSeed;
using ::testing::Each;
using Bias = AttentionCase::Bias;
using Layout = AttentionCase::Layout;

void ExpectReference(const AttentionCase& c, std::mt19937_64& random) {
  SCOPED_TRACE(c.ToString());
  AttentionOperands operands(c, random);
  ASSERT_TRUE(operands.MakeExpected().ok());
  const absl::StatusOr<double> error = RunBackward(operands);
  ASSERT_TRUE(error.ok()) << error.status();
  EXPECT_LE(*error, cotan::testing::kMatmul);
}

TEST(AttentionBackwardTest, EachDTypeMaskAndBias) {
  std::mt19937_64 random(TestSeed());
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    ExpectReference({.dtype = dtype, .queries = 33, .keys = 17, .size = 8, .value_size = 8}, random);
    ExpectReference({.dtype = dtype,
                     .queries = 65,
                     .keys = 33,
                     .size = 20,
                     .value_size = 5,
                     .is_causal = true,
                     .bias = Bias::kFull,
                     .layout = Layout::kHeadsInside},
                    random);
    ExpectReference({.dtype = dtype,
                     .batch = 2,
                     .queries = 17,
                     .keys = 65,
                     .size = 5,
                     .value_size = 20,
                     .is_causal = true,
                     .bias = Bias::kBroadcast,
                     .layout = Layout::kRandom},
                    random);
  }
}

TEST(AttentionBackwardTest, SizesAroundTiles) {
  std::mt19937_64 random(TestSeed());
  for (const int64_t queries : {1, 64, 65}) {
    for (const int64_t keys : {1, 66}) {
      ExpectReference({.heads = 1, .queries = queries, .keys = keys, .size = 12, .value_size = 4, .is_causal = true},
                      random);
    }
  }
}

TEST(AttentionBackwardTest, ColumnsAroundVectorsAndChunks) {
  std::mt19937_64 random(TestSeed());
  for (const auto& [dtype, size] : std::vector<std::pair<DType, int64_t>>{{DType::kFloat16, 80},
                                                                          {DType::kFloat16, 130},
                                                                          {DType::kFloat32, 1},
                                                                          {DType::kFloat32, 64},
                                                                          {DType::kFloat32, 100},
                                                                          {DType::kFloat32, 130},
                                                                          {DType::kFloat64, 64},
                                                                          {DType::kFloat64, 66}}) {
    ExpectReference({.dtype = dtype, .heads = 1, .queries = 20, .keys = 40, .size = size, .value_size = size}, random);
  }
}

TEST(AttentionBackwardTest, OneOperandHasChunks) {
  std::mt19937_64 random(TestSeed());
  for (const bool is_causal : {false, true}) {
    ExpectReference({.heads = 1,
                     .queries = 70,
                     .keys = 40,
                     .size = 10,
                     .value_size = 150,
                     .is_causal = is_causal,
                     .bias = Bias::kFull},
                    random);
    ExpectReference({.heads = 1, .queries = 40, .keys = 70, .size = 150, .value_size = 10, .is_causal = is_causal},
                    random);
  }
}

TEST(AttentionBackwardTest, LargeTilesFillAGpu) {
  std::mt19937_64 random(TestSeed());
  ExpectReference({.batch = 1, .heads = 64, .queries = 65, .keys = 65, .size = 2, .value_size = 2}, random);
}

TEST(AttentionBackwardTest, RandomSizesAndLayouts) {
  std::mt19937_64 random(TestSeed());
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  for (int round = 0; round < 6; ++round) {
    ExpectReference({.dtype = random() % 4 == 0 ? DType::kBFloat16 : DType::kFloat32,
                     .batch = pick(1, 2),
                     .heads = pick(1, 2),
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

TEST(AttentionBackwardTest, OrderOfBlocksDoesNotChangeBits) {
  std::mt19937_64 random(TestSeed());
  AttentionOperands operands({.queries = 70, .keys = 90, .size = 16, .value_size = 16, .bias = Bias::kFull}, random);
  ASSERT_TRUE(operands.MakeExpected().ok());
  std::vector<HostTensor> first;
  ASSERT_TRUE(RunBackward(operands, {}, &first).ok());
  for (const uint64_t seed : {1, 2}) {
    std::vector<HostTensor> again;
    ASSERT_TRUE(RunBackward(operands, {.seed = seed}, &again).ok());
    for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i].bytes(), again[i].bytes());
  }
}

TEST(AttentionBackwardTest, EachOperandIsReadOncePerTile) {
  std::mt19937_64 random(TestSeed());
  const int64_t queries = 64, keys = 128, size = 32, heads = 2;
  AttentionOperands operands({.heads = heads, .queries = queries, .keys = keys, .size = size, .value_size = size},
                             random);
  ASSERT_TRUE(operands.MakeExpected().ok());
  testing::RunResult run;
  ASSERT_TRUE(RunBackward(operands, {}, nullptr, &run).ok());
  EXPECT_EQ(run.launches, 2);
  // Dots: grad, result. grad_q: q and grad once, k and v for each of 2 tiles of 32 queries. grad_k, grad_v: k and v
  // once, q and grad for each of 4 tiles of 32 keys. And per query, logsumexp for 16 lanes, and it and the dot for 4
  // tiles of keys.
  const int64_t elements = size * (2 * queries + 2 * queries + 2 * 2 * keys + 2 * keys + 4 * 2 * queries);
  const int64_t statistics = queries * (16 + 2 * 4);
  EXPECT_EQ(run.counters.global_load_bytes, static_cast<uint64_t>(heads * (elements + statistics)) * 4);
  EXPECT_LE(static_cast<double>(run.counters.global_load_sectors) * 32,
            static_cast<double>(heads * (elements + statistics)) * 4 * 1.05);
}

TEST(AttentionBackwardTest, QueryThatSeesNothingGivesZeros) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  HostTensor grad(DType::kFloat32, {1, 1, 1, 1}, {2});
  HostTensor q(DType::kFloat32, {1, 1, 1, 1}, {1});
  HostTensor k(DType::kFloat32, {1, 1, 2, 1}, {1, 1});
  HostTensor v(DType::kFloat32, {1, 1, 2, 1}, {3, 5});
  HostTensor result(DType::kFloat32, {1, 1, 1, 1}, {0});
  HostTensor logsumexp(DType::kFloat32, {1, 1, 1}, {-kInfinity});
  HostTensor bias(DType::kFloat32, {1, 2}, {-kInfinity, -kInfinity});
  HostTensor grad_q(DType::kFloat32, q.layout());
  HostTensor grad_k(DType::kFloat32, k.layout());
  HostTensor grad_v(DType::kFloat32, v.layout());
  serialization::Op op;
  op.mutable_attention_backward()->set_scale(1);
  ASSERT_TRUE(testing::RunPlan(PlanFlashAttentionBackward, op, {&grad, &q, &k, &v, &result, &logsumexp, &bias},
                               {&grad_q, &grad_k, &grad_v})
                  .ok());
  EXPECT_THAT(grad_q.Values(), Each(0));
  EXPECT_THAT(grad_k.Values(), Each(0));
  EXPECT_THAT(grad_v.Values(), Each(0));
}

TEST(AttentionBackwardTest, EmptyOperands) {
  std::mt19937_64 random(TestSeed());
  ExpectReference({.queries = 0}, random);
  ExpectReference({.keys = 0}, random);
  ExpectReference({.size = 0}, random);
  ExpectReference({.value_size = 0}, random);
  AttentionOperands operands({.batch = 0}, random);
  testing::RunResult run;
  ASSERT_TRUE(RunBackward(operands, {}, nullptr, &run).ok());
  EXPECT_EQ(run.launches, 0);
}

TEST(AttentionBackwardTest, GuardedOutputsStayAfterAnError) {
  std::mt19937_64 random(TestSeed());
  AttentionOperands operands({.bias = Bias::kFull}, random);
  ASSERT_TRUE(operands.MakeExpected().ok());
  const absl::StatusOr<double> error = RunBackward(operands, {.guarded_outputs = true});
  ASSERT_TRUE(error.ok()) << error.status();
  EXPECT_LE(*error, cotan::testing::kMatmul);
  std::vector<HostTensor> outputs;
  ASSERT_TRUE(RunBackward(operands, {.guarded_outputs = true, .failed_before = true}, &outputs).ok());
  for (const HostTensor& output : outputs) EXPECT_THAT(output.bytes(), Each(static_cast<char>(0xa5)));
}

}  // namespace
}  // namespace cotan::cuda
