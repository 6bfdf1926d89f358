// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/matmul/matmul_epilogue.h"

#include <random>
#include <vector>

#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/api/in_place.h"
#include "kernels/cpu/matmul/matmul.h"
#include "kernels/reference/ops.h"
#include "kernels/testing/expr_builder.h"
#include "kernels/testing/host_tensor.h"
#include "kernels/testing/random_case.h"
#include "testing/tolerance.h"

namespace cotan::cpu {
namespace {

using testing::DenseLayout;
using testing::ErrorInUnits;
using testing::ExprBuilder;
using ::testing::HasSubstr;
using testing::HostTensor;
using testing::RandomLayout;
using testing::RandomTensor;
using testing::RunOp;
using testing::TestSeed;

constexpr DType kF32 = DType::kFloat32;

// relu(product + bias) * scale.
serialization::Op ReluOp(absl::Span<const int64_t> sizes) {
  ExprBuilder b(sizes);
  const int sum = b.Add(b.Input(0, kF32), b.Input(1, kF32));
  b.Output(b.Mul(b.Apply(serialization::FN_RELU, {sum}), b.Input(2, kF32)));
  serialization::Op op;
  *op.mutable_matmul()->mutable_epilogue() = b.expr();
  return op;
}

void ExpectReference(const serialization::Op& op, std::vector<HostTensor*> inputs, const StridedLayout& layout) {
  HostTensor expected(kF32, layout);
  HostTensor actual(kF32, layout);
  absl::Status status = RunOp(reference::MakeMatmul, op, inputs, {&expected});
  ASSERT_TRUE(status.ok()) << status;
  status = RunOp(MakeMatmul, op, inputs, {&actual});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_LE(ErrorInUnits(actual, expected.Values()), testing::kMatmul);
}

TEST(MatmulEpilogueTest, AnyExpressionStridesAndBatches) {
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 100; ++i) {
    const int64_t m = random() % 20, k = random() % 20, n = random() % 20;
    DimVector batch(random() % 3);
    for (int64_t& size : batch) size = random() % 4;
    const auto layout = [&](int64_t rows, int64_t columns) {
      DimVector sizes = batch;
      sizes.insert(sizes.end(), {rows, columns});
      return RandomLayout(sizes, random, true, true);
    };
    HostTensor a = RandomTensor(kF32, layout(m, k), random);
    HostTensor b = RandomTensor(kF32, layout(k, n), random);
    HostTensor bias = RandomTensor(kF32, DenseLayout({n}), random);
    HostTensor scale = RandomTensor(kF32, layout(m, n), random);
    const DimVector sizes = scale.layout().sizes;
    ExpectReference(ReluOp(sizes), {&a, &b, &bias, &scale}, RandomLayout(sizes, random, true, false));
  }
}

TEST(MatmulEpilogueTest, FaultsAreRejected) {
  HostTensor a(kF32, {4, 2}), b(kF32, {2, 3}), bias(kF32, {3}), scale(kF32, {4, 3}), c(kF32, {4, 3});
  HostTensor batched(kF32, {2, 4, 3});
  const auto message = [&](const serialization::Op& op, std::vector<HostTensor*> inputs, HostTensor* output = nullptr) {
    const absl::Status status = RunOp(MakeMatmul, op, inputs, {output == nullptr ? &c : output});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message(ReluOp({4, 3}), {&a}), HasSubstr("has 1 inputs"));
  EXPECT_THAT(message(ReluOp({4, 3}), {&a, &a, &bias, &scale}), HasSubstr("expected f32[2,2]"));
  EXPECT_THAT(message(ReluOp({4, 3}), {&a, &bias, &bias, &scale}), HasSubstr("not a matrix"));
  EXPECT_THAT(message(ReluOp({4, 3}), {&a, &b, &bias}), HasSubstr("input 2 of 2"));
  EXPECT_THAT(message(ReluOp({2, 4, 3}), {&a, &b, &bias, &scale}, &batched), HasSubstr("domain is [2,4,3]"));
  ExprBuilder sum({4, 3}, {1});
  const int x = sum.Input(0, kF32);
  sum.Output(sum.Add(x, sum.Sum(x)));
  serialization::Op reduces;
  *reduces.mutable_matmul()->mutable_epilogue() = sum.expr();
  EXPECT_THAT(message(reduces, {&a, &b}), HasSubstr("reduces"));
}

TEST(MatmulEpilogueTest, OutputMayLieInAnInputOfTheExpressionOnly) {
  const TensorSpec square = {kF32, DenseLayout({4, 4})};
  const TensorSpec row = {kF32, DenseLayout({4})};
  const std::vector<TensorSpec> inputs = {square, square, row, square};
  const std::vector<TensorSpec> outputs = {square};
  const serialization::Op op = ReluOp({4, 4});
  const KernelRequest request = {op, inputs, outputs, {}};
  EXPECT_FALSE(InPlaceSafe(request, 0, 0));
  EXPECT_FALSE(InPlaceSafe(request, 1, 0));
  EXPECT_FALSE(InPlaceSafe(request, 2, 0));
  EXPECT_TRUE(InPlaceSafe(request, 3, 0));
}

}  // namespace
}  // namespace cotan::cpu
