// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/attention/attention.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/half_precision/half_precision.h"
#include "kernels/cpu/simd/amx_tiles.h"
#include "kernels/testing/host_tensor.h"
#include "kernels/testing/random_case.h"
#include "testing/tolerance.h"

namespace cotan::cpu {
namespace {

using serialization::Op;
using testing::DenseLayout;
using testing::ErrorInUnits;
using testing::GapsAreUntouched;
using testing::HostTensor;
using testing::RandomLayout;
using testing::RandomTensor;
using testing::RunOp;
using testing::TestSeed;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Case {
  int64_t batch, heads, queries, keys, size, value_size;
  bool is_causal;
  double scale;
};

struct Expected {
  std::vector<double> result, logsumexp, grad_q, grad_k, grad_v;
};

// Returns the results of the definition, in double. All operands are row-major; bias is [B, H, L, S] or
// empty.
Expected Reference(const Case& c, const std::vector<double>& q, const std::vector<double>& k,
                   const std::vector<double>& v, const std::vector<double>& bias, const std::vector<double>& grad) {
  Expected x;
  x.result.resize(grad.size());
  x.grad_q.resize(q.size());
  x.grad_k.resize(k.size());
  x.grad_v.resize(v.size());
  std::vector<double> p(static_cast<size_t>(c.keys));
  std::vector<double> slope(p.size());
  for (int64_t row = 0; row < c.batch * c.heads * c.queries; ++row) {
    const int64_t head = row / c.queries;
    const int64_t visible = c.is_causal ? std::min(c.keys, row % c.queries + 1) : c.keys;
    double max = -kInfinity;
    for (int64_t j = 0; j < visible; ++j) {
      p[j] = 0;
      for (int64_t e = 0; e < c.size; ++e) p[j] += q[row * c.size + e] * k[(head * c.keys + j) * c.size + e];
      p[j] = p[j] * c.scale + (bias.empty() ? 0 : bias[row * c.keys + j]);
      max = std::max(max, p[j]);
    }
    double sum = 0;
    for (int64_t j = 0; j < visible; ++j) {
      p[j] = max == -kInfinity ? 0 : std::exp(p[j] - max);
      sum += p[j];
    }
    x.logsumexp.push_back(max + std::log(sum));
    double dot = 0;
    for (int64_t j = 0; j < visible; ++j) {
      p[j] = sum == 0 ? 0 : p[j] / sum;
      slope[j] = 0;
      for (int64_t e = 0; e < c.value_size; ++e) {
        const int64_t value = (head * c.keys + j) * c.value_size + e;
        const double g = grad[row * c.value_size + e];
        x.result[row * c.value_size + e] += p[j] * v[value];
        x.grad_v[value] += p[j] * g;
        slope[j] += g * v[value];
      }
      dot += p[j] * slope[j];
    }
    for (int64_t j = 0; j < visible; ++j) {
      const double s = p[j] * (slope[j] - dot) * c.scale;
      for (int64_t e = 0; e < c.size; ++e) {
        const int64_t key = (head * c.keys + j) * c.size + e;
        x.grad_q[row * c.size + e] += s * k[key];
        x.grad_k[key] += s * q[row * c.size + e];
      }
    }
  }
  return x;
}

HostTensor Random(DType dtype, const DimVector& sizes, std::mt19937_64& random) {
  return RandomTensor(dtype, RandomLayout(sizes, random, random() % 2 == 0, random() % 3 == 0), random);
}

StridedLayout OutputLayout(const DimVector& sizes, std::mt19937_64& random) {
  return RandomLayout(sizes, random, random() % 2 == 0, false);
}

void SetAttributes(const Case& c, serialization::Attention& op) {
  op.set_is_causal(c.is_causal);
  op.set_scale(c.scale);
}

void ExpectAttention(const Case& c, DType dtype, std::mt19937_64& random, bool has_bias) {
  const DimVector q_sizes = {c.batch, c.heads, c.queries, c.size};
  const DimVector k_sizes = {c.batch, c.heads, c.keys, c.size};
  const DimVector v_sizes = {c.batch, c.heads, c.keys, c.value_size};
  const DimVector result_sizes = {c.batch, c.heads, c.queries, c.value_size};
  HostTensor q = Random(dtype, q_sizes, random);
  HostTensor k = Random(dtype, k_sizes, random);
  HostTensor v = Random(dtype, v_sizes, random);
  HostTensor bias = Random(dtype, {c.batch, c.heads, c.queries, c.keys}, random);
  HostTensor grad = Random(dtype, result_sizes, random);
  if (has_bias && bias.numel() > 0) {
    std::vector<double> values = bias.Values();
    values[random() % values.size()] = -kInfinity;
    bias.SetValues(values);
  }
  const Expected expected =
      Reference(c, q.Values(), k.Values(), v.Values(), has_bias ? bias.Values() : std::vector<double>{}, grad.Values());
  SCOPED_TRACE(ToString(q.layout()) + " " + ToString(k.layout()) + " " + ToString(v.layout()) +
               (c.is_causal ? " causal" : "") + (has_bias ? " bias" : ""));
  Op op;
  SetAttributes(c, *op.mutable_attention());
  const StridedLayout result_layout = OutputLayout(result_sizes, random);
  HostTensor result(dtype, result_layout);
  const DType sums_dtype = dtype == DType::kBFloat16 ? DType::kFloat32 : dtype;
  HostTensor logsumexp(sums_dtype, OutputLayout({c.batch, c.heads, c.queries}, random));
  std::vector<HostTensor*> inputs = {&q, &k, &v};
  if (has_bias) inputs.push_back(&bias);
  const absl::Status forward = RunOp(MakeAttention, op, inputs, {&result, &logsumexp});
  ASSERT_TRUE(forward.ok()) << forward;
  const double tolerance = dtype == DType::kBFloat16 ? testing::kPointwise : testing::kMatmul;
  EXPECT_LE(ErrorInUnits(result, expected.result), tolerance);
  EXPECT_LE(ErrorInUnits(logsumexp, expected.logsumexp), testing::kMatmul);
  EXPECT_TRUE(GapsAreUntouched(result));

  Op backward_op;
  SetAttributes(c, *backward_op.mutable_attention_backward());
  std::vector<HostTensor*> saved = {&grad, &q, &k, &v, &result, &logsumexp};
  if (has_bias) saved.push_back(&bias);
  HostTensor grad_q(dtype, OutputLayout(q_sizes, random));
  HostTensor grad_k(dtype, OutputLayout(k_sizes, random));
  HostTensor grad_v(dtype, OutputLayout(v_sizes, random));
  const absl::Status backward = RunOp(MakeAttentionBackward, backward_op, saved, {&grad_q, &grad_k, &grad_v});
  ASSERT_TRUE(backward.ok()) << backward;
  EXPECT_LE(ErrorInUnits(grad_q, expected.grad_q), tolerance);
  EXPECT_LE(ErrorInUnits(grad_k, expected.grad_k), tolerance);
  EXPECT_LE(ErrorInUnits(grad_v, expected.grad_v), tolerance);
  EXPECT_TRUE(GapsAreUntouched(grad_q) && GapsAreUntouched(grad_k) && GapsAreUntouched(grad_v));

  for (int threads : {2, 7}) {
    HostTensor result_again(dtype, result.layout());
    HostTensor grad_k_again(dtype, grad_k.layout());
    ASSERT_TRUE(RunOp(MakeAttention, op, inputs, {&result_again}, threads).ok());
    ASSERT_TRUE(RunOp(MakeAttentionBackward, backward_op, saved, {&grad_q, &grad_k_again, &grad_v}, threads).ok());
    EXPECT_EQ(result.bytes(), result_again.bytes());
    EXPECT_EQ(grad_k.bytes(), grad_k_again.bytes());
  }
}

TEST(AttentionTest, RandomSizesStridesAndMasks) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 60; ++round) {
    const auto pick = [&](int64_t low, int64_t high) {
      return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
    };
    const Case c{pick(0, 2), pick(1, 3), pick(1, 150), pick(0, 150), pick(1, 70), pick(1, 70), random() % 2 == 0, 0.3};
    ExpectAttention(c, random() % 4 == 0 ? DType::kFloat64 : DType::kFloat32, random, random() % 2 == 0);
  }
}

// Sums are f32. With AMX, operands of all products are rounded, otherwise only the operands and results of the op.
TEST(AttentionTest, BFloat16IsNearTheDefinition) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 60; ++round) {
    const auto pick = [&](int64_t low, int64_t high) {
      return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
    };
    const Case c{pick(0, 2), pick(1, 3), pick(1, 200), pick(0, 200), pick(1, 70), pick(1, 70), random() % 2 == 0, 0.3};
    ExpectAttention(c, DType::kBFloat16, random, random() % 2 == 0);
  }
  ExpectAttention({1, 1, 600, 600, 32, 32, true, 0.17}, DType::kBFloat16, random, false);
}

// Expects the bits of the f32 kernels between conversions of whole operands.
void ExpectBitsOfWidened(const Case& c, std::mt19937_64& random, bool has_bias) {
  constexpr DType kDType = DType::kBFloat16;
  const DimVector q_sizes = {c.batch, c.heads, c.queries, c.size}, k_sizes = {c.batch, c.heads, c.keys, c.size};
  const DimVector v_sizes = {c.batch, c.heads, c.keys, c.value_size};
  const DimVector result_sizes = {c.batch, c.heads, c.queries, c.value_size};
  HostTensor q = Random(kDType, q_sizes, random), k = Random(kDType, k_sizes, random);
  HostTensor v = Random(kDType, v_sizes, random), grad = Random(kDType, result_sizes, random);
  HostTensor bias = Random(kDType, {c.batch, 1, c.queries, c.keys}, random);
  Op op, backward_op;
  SetAttributes(c, *op.mutable_attention());
  SetAttributes(c, *backward_op.mutable_attention_backward());
  std::vector<HostTensor*> inputs = {&q, &k, &v};
  if (has_bias) inputs.push_back(&bias);
  HostTensor result(kDType, OutputLayout(result_sizes, random)), widened_result(kDType, result.layout());
  HostTensor logsumexp(DType::kFloat32, OutputLayout({c.batch, c.heads, c.queries}, random));
  HostTensor widened_logsumexp(DType::kFloat32, logsumexp.layout());
  ASSERT_TRUE(RunOp(MakeAttention, op, inputs, {&result, &logsumexp}).ok());
  ASSERT_TRUE(RunOp(MakeWidened<MakeAttention>, op, inputs, {&widened_result, &widened_logsumexp}).ok());
  EXPECT_EQ(result.bytes(), widened_result.bytes());
  EXPECT_EQ(logsumexp.bytes(), widened_logsumexp.bytes());
  std::vector<HostTensor*> saved = {&grad, &q, &k, &v, &result, &logsumexp};
  if (has_bias) saved.push_back(&bias);
  HostTensor grad_q(kDType, OutputLayout(q_sizes, random)), grad_k(kDType, OutputLayout(k_sizes, random));
  HostTensor grad_v(kDType, OutputLayout(v_sizes, random)), widened_q(kDType, grad_q.layout());
  HostTensor widened_k(kDType, grad_k.layout()), widened_v(kDType, grad_v.layout());
  ASSERT_TRUE(RunOp(MakeAttentionBackward, backward_op, saved, {&grad_q, &grad_k, &grad_v}, 2).ok());
  ASSERT_TRUE(RunOp(MakeWidened<MakeAttentionBackward>, backward_op, saved, {&widened_q, &widened_k, &widened_v}).ok());
  EXPECT_EQ(grad_q.bytes(), widened_q.bytes());
  EXPECT_EQ(grad_k.bytes(), widened_k.bytes());
  EXPECT_EQ(grad_v.bytes(), widened_v.bytes());
}

TEST(AttentionTest, BFloat16HasTheBitsOfWidenedOperands) {
  std::mt19937_64 random(TestSeed());
  // More queries have kernels of their own.
  const int64_t most_queries = amx::IsAvailable() ? 15 : 150;
  for (int round = 0; round < 30; ++round) {
    const auto pick = [&](int64_t low, int64_t high) {
      return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
    };
    const Case c{pick(0, 2),  pick(1, 3),  pick(1, most_queries), pick(0, 150),
                 pick(1, 70), pick(1, 70), random() % 2 == 0,     0.3};
    ExpectBitsOfWidened(c, random, random() % 2 == 0);
  }
}

TEST(AttentionTest, LongHeadIsSharedByThreadsWithoutChange) {
  std::mt19937_64 random(TestSeed());
  ExpectAttention({1, 1, 600, 600, 32, 32, true, 0.17}, DType::kFloat32, random, false);
  ExpectAttention({1, 1, 300, 500, 64, 64, false, 0.125}, DType::kFloat32, random, false);
}

TEST(AttentionTest, LargeScoresDoNotOverflow) {
  HostTensor q(DType::kFloat32, {1, 1, 1, 1}, {1000});
  HostTensor k(DType::kFloat32, {1, 1, 2, 1}, {1, -1});
  HostTensor v(DType::kFloat32, {1, 1, 2, 1}, {3, 4});
  HostTensor result(DType::kFloat32, {1, 1, 1, 1});
  Op op;
  op.mutable_attention()->set_scale(1);
  ASSERT_TRUE(RunOp(MakeAttention, op, {&q, &k, &v}, {&result}).ok());
  EXPECT_EQ(result.Values()[0], 3);
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
    Op op;
    op.mutable_attention()->set_scale(1);
    ASSERT_TRUE(RunOp(MakeAttention, op, {&q, &k, &v}, {&result, &logsumexp}).ok());
    EXPECT_TRUE(std::isnan(result.Values()[0]));
    EXPECT_TRUE(std::isnan(logsumexp.Values()[0]));
    EXPECT_EQ(std::isnan(result.Values()[1]), is_of_key);
  }
}

TEST(AttentionTest, QueryThatSeesNothingGivesZeros) {
  HostTensor q(DType::kFloat32, {1, 1, 1, 1}, {1});
  HostTensor k(DType::kFloat32, {1, 1, 2, 1}, {1, 2});
  HostTensor v(DType::kFloat32, {1, 1, 2, 1}, {3, 4});
  HostTensor bias(DType::kFloat32, {1, 1, 1, 2}, {-kInfinity, -kInfinity});
  HostTensor grad(DType::kFloat32, {1, 1, 1, 1}, {1});
  HostTensor result(DType::kFloat32, {1, 1, 1, 1});
  HostTensor logsumexp(DType::kFloat32, {1, 1, 1});
  HostTensor grad_q(DType::kFloat32, {1, 1, 1, 1});
  HostTensor grad_k(DType::kFloat32, {1, 1, 2, 1});
  HostTensor grad_v(DType::kFloat32, {1, 1, 2, 1});
  Op op;
  op.mutable_attention()->set_scale(1);
  ASSERT_TRUE(RunOp(MakeAttention, op, {&q, &k, &v, &bias}, {&result, &logsumexp}).ok());
  EXPECT_EQ(result.Values()[0], 0);
  EXPECT_EQ(logsumexp.Values()[0], -kInfinity);
  op.mutable_attention_backward()->set_scale(1);
  ASSERT_TRUE(
      RunOp(MakeAttentionBackward, op, {&grad, &q, &k, &v, &result, &logsumexp, &bias}, {&grad_q, &grad_k, &grad_v})
          .ok());
  EXPECT_EQ(grad_q.Values()[0], 0);
  EXPECT_THAT(grad_k.Values(), ::testing::Each(0));
  EXPECT_THAT(grad_v.Values(), ::testing::Each(0));
}

}  // namespace
}  // namespace cotan::cpu
