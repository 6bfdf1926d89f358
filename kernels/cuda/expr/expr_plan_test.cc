// SPDX-License-Identifier: Apache-2.0

// Expressions of models: schedules, digits, memory traffic.
#include "kernels/cuda/expr/expr_plan.h"

#include <cmath>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/cuda/expr/expr_case.h"
#include "kernels/cuda/expr/model_exprs.h"
#include "kernels/cuda/testing/run_plan.h"
#include "kernels/testing/expr_builder.h"
#include "kernels/testing/random_case.h"
#include "testing/tolerance.h"

namespace cotan::cuda::testing {
namespace {

using namespace serialization;  // NOLINT: the enumerators of ScalarFn are many
using cotan::testing::ExprBuilder;
using cotan::testing::HostTensor;
using cotan::testing::kReduction;
using cotan::testing::kRounding;
using cotan::testing::kTranscendental;
using cotan::testing::TestSeed;

constexpr DType kF32 = DType::kFloat32;
constexpr DType kBf16 = DType::kBFloat16;

bool IsHalf(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

RunResult ExpectReference(const ExprCase& expr, double bound, const RunOptions& options = {}) {
  RunResult result;
  const Tensors actual = expr.Run(options, &result);
  EXPECT_LE(LargestError(expr.Reference(), actual), bound);
  return result;
}

// Expects that the order of blocks and warps does not change a bit.
void ExpectSameBits(const ExprCase& expr) {
  const Tensors first = expr.Run();
  for (const uint64_t seed : {3, 4}) EXPECT_EQ(Difference(first, expr.Run({.seed = seed})), "");
}

// Returns the sectors of all loads and stores, in units of the bytes of all operands.
double Traffic(const ExprCase& expr, const RunResult& result) {
  double bytes = 0;
  for (const auto& tensor : expr.inputs) bytes += static_cast<double>(tensor->bytes().size());
  for (const auto& tensor : expr.outputs) bytes += static_cast<double>(tensor->bytes().size());
  return static_cast<double>(result.counters.global_load_sectors + result.counters.global_store_sectors) * 32 / bytes;
}

TEST(ExprPlanTest, SoftmaxOfRowsOfAnyLength) {
  std::mt19937_64 random(TestSeed());
  for (const DType dtype : {kF32, kBf16, DType::kFloat64}) {
    for (const int64_t columns : {1, 3, 10, 33, 128, 1000, 1001, 4100, 20000}) {
      SCOPED_TRACE(columns);
      const ExprCase expr = Softmax(dtype, columns > 2000 ? 2 : 9, columns, random);
      const RunResult result = ExpectReference(expr, IsHalf(dtype) ? kRounding : kTranscendental);
      EXPECT_EQ(result.launches, 1);
    }
  }
  ExpectSameBits(Softmax(kF32, 9, 1001, random));
}

TEST(ExprPlanTest, RowsThatFitRegistersAreReadOnce) {
  std::mt19937_64 random(TestSeed());
  for (const int64_t columns : {16, 1024, 4096}) {
    const ExprCase expr = Softmax(kF32, 65536 / columns, columns, random);
    EXPECT_LE(Traffic(expr, ExpectReference(expr, kTranscendental)), 1.01) << columns;
  }
}

TEST(ExprPlanTest, LayerNormOfRows) {
  std::mt19937_64 random(TestSeed());
  for (const DType dtype : {kF32, kBf16}) {
    for (const int64_t columns : {7, 64, 768, 5000}) {
      const ExprCase expr = LayerNorm(dtype, 5, columns, random);
      EXPECT_EQ(ExpectReference(expr, IsHalf(dtype) ? 4 : kReduction).launches, 1);
      EXPECT_EQ(Difference(expr.Run(), expr.RunInPlace(0, 0)), "");
    }
  }
  // Groups with several rows, and a last one with fewer.
  ExprCase expr = LayerNorm(kF32, 61, 70, random);
  expr.schedule = {.threads = 1024, .processors = 1};
  ExpectReference(expr, kReduction);
  ExpectSameBits(expr);
}

TEST(ExprPlanTest, BatchNormUpdatesItsStatesInPlace) {
  std::mt19937_64 random(TestSeed());
  for (const bool channels_last : {false, true}) {
    for (const std::vector<int64_t>& sizes :
         std::vector<std::vector<int64_t>>{{4, 6, 5, 7}, {2, 3, 1, 1}, {2, 16, 32, 32}}) {
      const ExprCase expr = BatchNorm(sizes, channels_last, random);
      ExpectReference(expr, kReduction);
      const Tensors expected = expr.Run();
      EXPECT_EQ(Difference(expected, expr.RunInPlace(3, 1, {.seed = 5})), "");
      EXPECT_EQ(Difference(expected, expr.RunInPlace(0, 0, {.seed = 6})), "");
    }
  }
}

TEST(ExprPlanTest, BlocksShareLongReductionsInOneLaunch) {
  std::mt19937_64 random(TestSeed());
  for (const bool channels_last : {false, true}) {
    const ExprCase expr = BatchNorm({4, 2, 128, 130}, channels_last, random);
    const RunResult result = ExpectReference(expr, kReduction);
    EXPECT_EQ(result.launches, 1);
    const uint64_t joins = result.counters.global_atomics;  // one of each block
    EXPECT_GE(joins, 25);
    const Tensors expected = expr.Run();
    ExpectSameBits(expr);
    // All blocks but the last one of each team leave it, if they run one after another.
    RunResult alone;
    EXPECT_EQ(Difference(expected, expr.Run({.multiprocessors = 1}, &alone)), "");
    EXPECT_GE(alone.counters.global_atomics, 2 * joins - 4);
    // Some teams are complete, others not.
    EXPECT_EQ(Difference(expected, expr.Run({.seed = 7, .multiprocessors = 12})), "");
    EXPECT_EQ(Difference(expected, expr.RunInPlace(3, 1, {.seed = 5})), "");
    EXPECT_EQ(Difference(expected, expr.RunInPlace(0, 0, {.seed = 6})), "");
  }
}

TEST(ExprPlanTest, SumsOfColumns) {
  std::mt19937_64 random(TestSeed());
  for (const DType dtype : {kF32, kBf16, DType::kInt64}) {
    for (const auto& [rows, columns] :
         {std::pair<int64_t, int64_t>{1000, 37}, {4096, 3}, {9, 1025}, {5000, 24}, {2, 1}}) {
      SCOPED_TRACE(std::to_string(rows) + " " + std::to_string(columns));
      const ExprCase expr = ColumnSum(dtype, rows, columns, random);
      ExpectReference(expr, dtype == DType::kInt64 ? 0 : IsHalf(dtype) ? kRounding : kReduction);
      ExpectSameBits(expr);
    }
  }
  ExprCase expr = ColumnSum(kF32, 512, 256, random);
  expr.schedule.wait_instructions = int64_t{1} << 40;
  EXPECT_LE(Traffic(expr, ExpectReference(expr, kReduction)), 1.01);
}

TEST(ExprPlanTest, BiasAndMomentumOfASumOfColumnsAreUpdatedInPlace) {
  std::mt19937_64 random(TestSeed());
  for (const int64_t rows : {5, 300, 9000}) {
    const ExprCase expr = BiasUpdate(rows, 40, random);
    const RunResult result = ExpectReference(expr, kReduction);
    EXPECT_EQ(result.launches, 1);
    EXPECT_EQ(result.counters.global_atomics > 0, rows == 9000);
    const Tensors expected = expr.Run();
    EXPECT_EQ(Difference(expected, expr.RunInPlace(1, 0, {.seed = 3})), "");
    EXPECT_EQ(Difference(expected, expr.RunInPlace(2, 1, {.seed = 4})), "");
  }
}

// f32 partial sums alone would lose digits.
TEST(ExprPlanTest, LongSumsKeepTheirDigits) {
  std::mt19937_64 random(TestSeed());
  for (const int64_t columns : {1, 3, 64, 3000}) {
    for (const int dim : {0, 1}) {
      const int64_t rows = 400'000 / columns;
      const int reduce[] = {dim};
      ExprCase expr;
      ExprBuilder b({rows, columns}, reduce);
      b.Output(b.Sum(b.Input(0, kF32)));
      expr.op = b.Build();
      const std::vector<int64_t> sizes = {rows, columns};
      expr.inputs.push_back(std::make_unique<HostTensor>(kF32, sizes));
      FillRandom(*expr.inputs[0], random, 0.5, 1.5);
      expr.outputs.push_back(
          std::make_unique<HostTensor>(kF32, std::vector<int64_t>{dim == 0 ? 1 : rows, dim == 1 ? 1 : columns}));
      const std::vector<double> expected = expr.Reference()[0]->Values();
      const std::vector<double> actual = expr.Run()[0]->Values();
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(actual[i], expected[i], expected[i] * 0x1p-22) << columns << " columns, dimension " << dim;
      }
    }
  }
}

TEST(ExprPlanTest, SumsOfEverything) {
  std::mt19937_64 random(TestSeed());
  for (const int64_t count : {1, 31, 1000, 65537, 300'000}) {
    const ExprCase expr = MeanSquare(count, random);
    const RunResult result = ExpectReference(expr, kReduction);
    EXPECT_EQ(result.launches, 1);
    EXPECT_EQ(result.counters.global_atomics > 0, count > 1000);
    if (count % 4 == 0) {
      EXPECT_LE(Traffic(expr, result), 1.1);
    }
    ExpectSameBits(expr);
  }
}

TEST(ExprPlanTest, CrossEntropyOfRows) {
  std::mt19937_64 random(TestSeed());
  for (const int64_t classes : {2, 10, 1000}) ExpectReference(CrossEntropy(33, classes, random), kTranscendental);
}

TEST(ExprPlanTest, PointwiseKernelsReadEachOperandOnce) {
  std::mt19937_64 random(TestSeed());
  for (const DType dtype : {kF32, kBf16}) {
    for (const int64_t count : {1, 7, 4096, 5001}) {
      const ExprCase expr = Adam(dtype, count, random);
      const RunResult result = ExpectReference(expr, IsHalf(dtype) ? kRounding : kTranscendental);
      EXPECT_EQ(result.launches, 1);
      if (count == 4096) {
        EXPECT_LE(Traffic(expr, result), 1.01);
      }
      const Tensors expected = expr.Run();
      for (size_t i = 0; i < 3; ++i) EXPECT_EQ(Difference(expected, expr.RunInPlace(i, i)), "");
    }
  }
}

TEST(ExprPlanTest, DropoutDrawsTheBitsOfTheCpu) {
  std::mt19937_64 random(TestSeed());
  for (const std::vector<int64_t>& sizes : std::vector<std::vector<int64_t>>{{4096}, {1001}, {7, 33}, {3, 4, 5}}) {
    const ExprCase expr = Dropout(sizes, random);
    ExpectReference(expr, 0);
  }
}

TEST(ExprPlanTest, OperandsAtUnalignedAddressesAreAccessedByElements) {
  std::mt19937_64 random(TestSeed());
  for (const ExprCase& expr : {Softmax(kF32, 4, 64, random), Adam(kBf16, 100, random)}) {
    // An element in front moves the others to an address that is not a multiple of 16.
    Tensors moved;
    for (const auto& tensor : expr.inputs) {
      std::vector<double> values = tensor->Values();
      values.insert(values.begin(), 9);
      const int64_t sizes[] = {static_cast<int64_t>(values.size())};
      moved.push_back(std::make_unique<HostTensor>(tensor->dtype(), sizes, values));
    }
    const auto plan = [&](const KernelRequest& request) -> absl::StatusOr<KernelPlan> {
      std::vector<TensorSpec> specs;
      for (const auto& tensor : expr.inputs) specs.push_back(tensor->spec());
      absl::StatusOr<KernelPlan> result =
          PlanExpr({.op = expr.op, .inputs = specs, .outputs = request.outputs, .symbols = {}});
      if (!result.ok()) return result;
      for (KernelArgument& argument : std::get<KernelLaunch>(result->steps[0]).arguments) {
        const auto size = static_cast<int64_t>(ByteSize(expr.inputs[0]->dtype()));
        if (argument.kind == KernelArgument::Kind::kInput) argument.offset = size;
      }
      return result;
    };
    const Tensors actual = Copies(expr.outputs);
    const absl::StatusOr<RunResult> result = RunPlan(plan, expr.op, Pointers(moved), Pointers(actual));
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(Difference(expr.Run(), actual), "");
  }
}

TEST(ExprPlanTest, EmptyOutputsNeedNoLaunch) {
  std::mt19937_64 random(TestSeed());
  EXPECT_EQ(ExpectReference(Softmax(kF32, 0, 5, random), 0).launches, 0);
  EXPECT_EQ(ExpectReference(Softmax(kF32, 5, 0, random), 0).launches, 1);  // reductions of nothing, stored nowhere
  EXPECT_EQ(ExpectReference(Adam(kF32, 0, random), 0).launches, 0);
  EXPECT_EQ(ExpectReference(ColumnSum(kF32, 0, 5, random), 0).launches, 1);
  EXPECT_EQ(ExpectReference(ColumnSum(kF32, 5, 0, random), 0).launches, 0);
}

TEST(ExprPlanTest, GuardedOutputsAreKeptAfterAnError) {
  std::mt19937_64 random(TestSeed());
  for (const ExprCase& expr : {Adam(kF32, 100, random), BiasUpdate(9000, 40, random), Softmax(kF32, 3, 5, random)}) {
    EXPECT_EQ(Difference(expr.Run(), expr.Run({.guarded_outputs = true})), "");
    const Tensors kept = expr.Run({.guarded_outputs = true, .failed_before = true});
    for (size_t k = 0; k < kept.size(); ++k) EXPECT_EQ(kept[k]->bytes(), expr.outputs[k]->bytes());
  }
}

TEST(ExprPlanTest, OperandsBeyondTwoToThe31HaveWideIndices) {
  ExprBuilder b({3, 1'600'000'000});
  b.Output(b.Apply(FN_EXP, {b.Input(0, kF32)}));
  const Op op = b.Build();
  const TensorSpec spec[] = {{kF32, {{3, 1'600'000'000}, {1'600'000'000, 1}}}};
  const absl::StatusOr<KernelPlan> plan = PlanExpr({.op = op, .inputs = spec, .outputs = spec, .symbols = {}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto& launch = std::get<KernelLaunch>(plan->steps[0]);
  EXPECT_TRUE(absl::StrContains(launch.source.text, "using Index = uint64;"));
  EXPECT_EQ(launch.grid[0], 4'687'500u);
}

TEST(ExprPlanTest, ABrokenProgramIsRejected) {
  ExprBuilder b({4});
  b.Output(b.Input(3, kF32));
  const Op op = b.Build();
  EXPECT_EQ(PlanExpr({.op = op, .inputs = {}, .outputs = {}, .symbols = {}}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cotan::cuda::testing
