// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/expr_kernel.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "kernels/reference/expr.h"
#include "kernels/testing/expr_builder.h"
#include "kernels/testing/host_tensor.h"

namespace cotan::cpu {
namespace {

using namespace serialization;  // NOLINT
using cotan::testing::ExprBuilder;
using cotan::testing::FillRandom;
using cotan::testing::HostTensor;
using cotan::testing::RunOp;
using Values = std::vector<double>;

constexpr DType kF32 = DType::kFloat32;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(ExprKernelTest, SoftmaxKnownValues) {
  const int reduce[] = {1};
  ExprBuilder b({2, 2}, reduce);
  const int x = b.Input(0, kF32);
  const int e = b.Apply(FN_EXP, {b.Sub(x, b.Max(x))});
  b.Output(b.Div(e, b.Sum(e)));
  HostTensor in(kF32, {2, 2}, {0, std::log(3.0), 1000, 1000}), out(kF32, {2, 2});
  ASSERT_TRUE(RunOp(MakeExpr, b.Build(), {&in}, {&out}).ok());
  EXPECT_NEAR(out.Values()[0], 0.25, 1e-6);
  EXPECT_NEAR(out.Values()[1], 0.75, 1e-6);
  EXPECT_EQ(out.Values()[2], 0.5);
}

TEST(ExprKernelTest, NanInfinityAndSubnormalsPass) {
  ExprBuilder b({5});
  const int x = b.Input(0, kF32);
  b.Output(b.Apply(FN_MAXIMUM, {x, b.Constant(kF32, 1)}));
  b.Output(b.Mul(x, b.Constant(kF32, 1)));
  b.Output(b.Apply(FN_RELU, {x}));
  HostTensor in(kF32, {5}, {kNan, kInfinity, -kInfinity, 1e-40, -3});
  HostTensor maximum(kF32, {5}), product(kF32, {5}), relu(kF32, {5});
  ASSERT_TRUE(RunOp(MakeExpr, b.Build(), {&in}, {&maximum, &product, &relu}).ok());
  EXPECT_TRUE(std::isnan(maximum.Values()[0]) && std::isnan(relu.Values()[0]));
  EXPECT_EQ(maximum.Values()[2], 1);
  EXPECT_EQ(product.Values()[3], static_cast<double>(1e-40f));
  EXPECT_EQ(relu.Values()[4], 0);
}

// A million values around 1: f32 partial sums alone would lose four digits.
TEST(ExprKernelTest, LongSumsKeepTheirDigits) {
  std::mt19937_64 random(4);
  for (const int64_t columns : {1, 3, 64, 3000}) {
    const int64_t rows = 1'000'000 / columns;
    for (const int dim : {0, 1}) {
      const int reduce[] = {dim};
      ExprBuilder b({rows, columns}, reduce);
      b.Output(b.Sum(b.Input(0, kF32)));
      HostTensor in(kF32, {rows, columns});
      HostTensor out(kF32, {dim == 0 ? 1 : rows, dim == 1 ? 1 : columns});
      FillRandom(in, random, 0.5, 1.5);
      ASSERT_TRUE(RunOp(MakeExpr, b.Build(), {&in}, {&out}).ok());
      const Values values = in.Values(), sums = out.Values();
      Values exact(sums.size(), 0);
      for (size_t i = 0; i < values.size(); ++i) {
        exact[dim == 0 ? i % static_cast<size_t>(columns) : i / static_cast<size_t>(columns)] += values[i];
      }
      for (size_t i = 0; i < sums.size(); ++i) ASSERT_NEAR(sums[i], exact[i], exact[i] * 0x1p-22);
    }
  }
}

TEST(ExprKernelTest, ThreadsDoNotChangeABit) {
  std::mt19937_64 random(6);
  const int reduce[] = {0};
  ExprBuilder b({20'000, 24}, reduce);
  const int x = b.Input(0, kF32);
  const int scale = b.Constant(kF32, 1.0 / 20'000);
  const int mean = b.Mul(b.Sum(x), scale);
  const int centered = b.Sub(x, mean);
  b.Output(b.Mul(b.Sum(b.Mul(centered, centered)), scale));
  b.Output(b.Apply(FN_TANH, {centered}));
  HostTensor in(kF32, {20'000, 24});
  FillRandom(in, random, -1, 1);
  HostTensor variance(kF32, {1, 24}), full(kF32, {20'000, 24});
  ASSERT_TRUE(RunOp(MakeExpr, b.Build(), {&in}, {&variance, &full}, 1).ok());
  for (const int threads : {2, 3, 8}) {
    HostTensor other_variance(kF32, {1, 24}), other_full(kF32, {20'000, 24});
    const auto factory = [](const KernelRequest& request) { return MakeExprWith(request, {.ns_per_thread = 1}); };
    ASSERT_TRUE(RunOp(factory, b.Build(), {&in}, {&other_variance, &other_full}, threads).ok());
    EXPECT_EQ(variance.bytes(), other_variance.bytes());
    EXPECT_EQ(full.bytes(), other_full.bytes());
  }
}

// Outputs of ops whose operands exceed the caches are written past them, unless they are in the memory of an input.
TEST(ExprKernelTest, LargeOutputsAreTheSameInAnyMemory) {
  struct alignas(64) Line {
    float values[16];
  };
  constexpr int64_t kSize = (5 << 20) + 13;  // the last tile is short and ends within a line
  ExprBuilder b({kSize});
  const int x = b.Input(0, kF32);
  b.Output(b.Add(b.Mul(x, b.Constant(kF32, 3)), b.Constant(kF32, 1)));
  const Op op = b.Build();
  const TensorSpec spec = {kF32, {{kSize}, {1}, 0}};
  for (const int threads : {1, 2}) {
    const auto kernel = MakeExpr({op, {&spec, 1}, {&spec, 1}, {}, threads});
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    std::vector<Line> in(kSize / 16 + 2), out(kSize / 16 + 2), scratch((*kernel)->scratch_bytes() / sizeof(Line) + 1);
    float* const input = in.data()->values;
    for (int64_t i = 0; i < kSize; ++i) input[i] = static_cast<float>(i % 1000);
    for (const int64_t offset : {0, 1}) {  // the second output does not begin a line
      float* const output = out.data()->values + offset;
      output[kSize] = -7;
      void* inputs[] = {input};
      void* outputs[] = {output};
      ASSERT_TRUE((*kernel)->Run({inputs, outputs, scratch.data()}).ok());
      for (int64_t i = 0; i < kSize; ++i) ASSERT_EQ(output[i], static_cast<float>(i % 1000) * 3 + 1) << i;
      EXPECT_EQ(output[kSize], -7);
    }
    void* pointers[] = {input};
    ASSERT_TRUE((*kernel)->Run({pointers, pointers, scratch.data()}).ok());
    for (int64_t i = 0; i < kSize; ++i) ASSERT_EQ(input[i], static_cast<float>(i % 1000) * 3 + 1) << i;
  }
}

// Loads and stores 8-bit floats in any layout, broadcast and reduced ones too.
TEST(ExprKernelTest, EightBitFloatsAgreeWithTheReference) {
  std::mt19937_64 random(9);
  for (const DType narrow : {DType::kFloat8E4m3fn, DType::kFloat8E5m2}) {
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{7, 300}, {300, 7}, {2, 3, 33}, {1}, {2500}}) {
      const int reduce[] = {0};
      ExprBuilder b(sizes, reduce);
      const int x = b.Cast(b.Input(0, narrow), kF32);
      const int scale = b.Cast(b.Input(1, narrow), kF32);
      const int product = b.Mul(x, scale);
      b.Output(b.Cast(product, narrow));
      b.Output(b.Cast(b.Max(product), narrow));
      b.Output(b.Cast(b.Input(0, narrow), DType::kInt32));
      std::vector<int64_t> reduced = sizes;
      reduced[0] = 1;
      HostTensor in(narrow, cotan::testing::RandomLayout(sizes, random, /*gaps=*/true, /*expand=*/false));
      HostTensor factor(narrow, std::vector<int64_t>(sizes.size(), 1));
      FillRandom(in, random, -30, 30);
      FillRandom(factor, random, 0.5, 4);
      HostTensor full(narrow, sizes), most(narrow, reduced), integers(DType::kInt32, sizes);
      HostTensor full2(narrow, sizes), most2(narrow, reduced), integers2(DType::kInt32, sizes);
      ASSERT_TRUE(RunOp(MakeExpr, b.Build(), {&in, &factor}, {&full, &most, &integers}).ok());
      ASSERT_TRUE(RunOp(reference::MakeExpr, b.Build(), {&in, &factor}, {&full2, &most2, &integers2}).ok());
      EXPECT_EQ(full.bytes(), full2.bytes());
      EXPECT_EQ(most.bytes(), most2.bytes());
      EXPECT_EQ(integers.bytes(), integers2.bytes());
    }
  }
}

TEST(ExprKernelTest, ABrokenProgramIsRejected) {
  ExprBuilder b({4});
  b.Output(b.Input(3, kF32));
  HostTensor out(kF32, {4});
  EXPECT_EQ(RunOp(MakeExpr, b.Build(), {}, {&out}).code(), absl::StatusCode::kInvalidArgument);
}

TEST(ExprKernelTest, RegistersEveryDTypeOnce) {
  KernelRegistry registry;
  ASSERT_TRUE(RegisterExprKernels(registry).ok());
  EXPECT_TRUE(registry.Find(DeviceType::kCpu, Op::kExpr, DType::kBFloat16).ok());
  EXPECT_FALSE(RegisterExprKernels(registry).ok());
}

}  // namespace
}  // namespace cotan::cpu
