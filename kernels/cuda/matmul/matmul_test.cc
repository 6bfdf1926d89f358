// SPDX-License-Identifier: Apache-2.0

// Plans of matmul ops against the reference kernels, on the PTX interpreter and the simulated cuBLASLt.
#include "kernels/cuda/matmul/matmul.h"

#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/cuda/matmul/library_matmul.h"
#include "kernels/cuda/matmul/matmul_problem.h"
#include "kernels/cuda/matmul/run_matmul.h"
#include "kernels/cuda/testing/run_plan.h"
#include "kernels/reference/ops.h"
#include "kernels/testing/expr_builder.h"
#include "kernels/testing/host_tensor.h"
#include "kernels/testing/random_case.h"
#include "testing/tolerance.h"

namespace cotan::cuda {
namespace {

using cotan::testing::DenseLayout;
using cotan::testing::ErrorInUnits;
using cotan::testing::ExprBuilder;
using cotan::testing::GapsAreUntouched;
using cotan::testing::HostTensor;
using cotan::testing::RandomLayout;
using cotan::testing::RandomTensor;
using cotan::testing::RunOp;
using cotan::testing::TestSeed;
using testing::MatmulRunOptions;
using testing::MatmulRunResult;
using testing::RunMatmul;

constexpr DType kF16 = DType::kFloat16;
constexpr DType kF32 = DType::kFloat32;
constexpr DType kF64 = DType::kFloat64;

absl::StatusOr<KernelPlan> NoEpilogue(const KernelRequest&) { return absl::InternalError("there is no epilogue"); }
absl::StatusOr<KernelPlan> Fastest(const KernelRequest& request) { return PlanMatmul(request, NoEpilogue); }
absl::StatusOr<KernelPlan> Tiled(const KernelRequest& request) { return PlanTiledMatmul(request, NoEpilogue); }
using PlanFunction = decltype(&Fastest);

// Plans with cuBLASLt also where another kernel is faster.
absl::StatusOr<KernelPlan> Library(const KernelRequest& request) {
  COTAN_ASSIGN_OR_RETURN(const MatmulProblem problem, AnalyzeMatmul(request));
  if (problem.IsEmpty() || problem.k == 0) return Fastest(request);
  std::optional<LibraryMatmulPlan> library = PlanLibraryProduct(problem, request.guarded_outputs, /*scratch_begin=*/64);
  if (!library) return absl::InternalError("the library does not support the op");
  return std::move(library->plan);
}

serialization::Op MatmulOp() {
  serialization::Op op;
  op.mutable_matmul();
  return op;
}

// Returns the bound of ErrorInUnits. The reference sums in f64.
double Tolerance(DType dtype) {
  if (IsInteger(dtype)) return cotan::testing::kExact;
  return ByteSize(dtype) == 2 ? cotan::testing::kRounding : cotan::testing::kMatmul;
}

// Expects that a plan computes what the reference does, and returns what it ran.
MatmulRunResult ExpectReference(PlanFunction plan, std::vector<HostTensor*> inputs, const StridedLayout& output,
                                const MatmulRunOptions& options = {}) {
  const DType dtype = inputs[0]->dtype();
  HostTensor expected(dtype, output);
  EXPECT_TRUE(RunOp(reference::MakeMatmul, MatmulOp(), inputs, {&expected}).ok());
  HostTensor actual(dtype, output);
  const absl::StatusOr<MatmulRunResult> result = RunMatmul(plan, MatmulOp(), inputs, {&actual}, options);
  std::string geometry = std::string(DTypeName(dtype));
  for (const HostTensor* input : inputs) absl::StrAppend(&geometry, " ", ToString(input->layout()));
  absl::StrAppend(&geometry, " -> ", ToString(output));
  EXPECT_TRUE(result.ok()) << geometry << ": " << result.status();
  if (!result.ok()) return {};
  EXPECT_LE(ErrorInUnits(actual, expected.Values()), Tolerance(dtype)) << geometry;
  EXPECT_TRUE(GapsAreUntouched(actual)) << geometry;
  return *result;
}

// The tensors of a random op.
struct RandomCase {
  std::vector<HostTensor> inputs;
  StridedLayout output;
};

RandomCase MakeRandomCase(DType dtype, std::mt19937_64& random) {
  const auto size = [&](int64_t most) { return static_cast<int64_t>(random() % static_cast<uint64_t>(most)); };
  const int64_t m = size(40);
  const int64_t k = size(40);
  const int64_t n = size(40);
  DimVector batch(static_cast<size_t>(size(3)));
  for (int64_t& one : batch) one = size(4);
  DimVector a(batch);
  DimVector b(batch);
  DimVector c(batch);
  for (size_t d = 0; d < batch.size(); ++d) {
    if (size(4) == 0) a[d] = 1;
    if (size(4) == 0 && a[d] == batch[d]) b[d] = 1;
  }
  a.insert(a.end(), {m, k});
  b.insert(b.end(), {k, n});
  c.insert(c.end(), {m, n});
  const double bound = IsInteger(dtype) ? 100 : 1;
  const auto tensor = [&](const DimVector& sizes) {
    const bool is_plain = size(2) == 0;
    const StridedLayout layout = is_plain ? DenseLayout(sizes) : RandomLayout(sizes, random, true, true);
    return RandomTensor(dtype, layout, random, -bound, bound);
  };
  RandomCase result;
  result.inputs.push_back(tensor(a));
  result.inputs.push_back(tensor(b));
  if (size(2) == 0) {
    DimVector d = size(2) == 0 ? DimVector{n} : c;
    if (d.size() > 1 && size(3) == 0) d[d.size() - 2] = 1;
    result.inputs.push_back(tensor(d));
  }
  result.output = size(2) == 0 ? DenseLayout(c) : RandomLayout(c, random, size(2) == 0, false);
  return result;
}

void ExpectRandomProducts(PlanFunction plan, DType dtype, int count) {
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < count; ++i) {
    RandomCase one = MakeRandomCase(dtype, random);
    std::vector<HostTensor*> inputs;
    for (HostTensor& input : one.inputs) inputs.push_back(&input);
    ExpectReference(plan, inputs, one.output,
                    {.guarded_outputs = i % 4 == 3, .misalignment = static_cast<int64_t>(random() % 3)});
  }
}

TEST(MatmulTest, RandomProductsOfF32) { ExpectRandomProducts(Fastest, kF32, 60); }
TEST(MatmulTest, RandomProductsOfF16) { ExpectRandomProducts(Fastest, kF16, 30); }
TEST(MatmulTest, RandomProductsOfBF16) { ExpectRandomProducts(Fastest, DType::kBFloat16, 30); }
TEST(MatmulTest, RandomProductsOfF64) { ExpectRandomProducts(Fastest, kF64, 30); }
TEST(MatmulTest, RandomProductsOfIntegers) {
  for (const DType dtype : {DType::kInt32, DType::kInt64}) ExpectRandomProducts(Fastest, dtype, 10);
  for (const DType dtype : {DType::kInt8, DType::kUInt8, DType::kInt16}) ExpectRandomProducts(Fastest, dtype, 4);
}

TEST(LibraryMatmulTest, RandomProducts) {
  ExpectRandomProducts(Library, kF32, 60);
  for (const DType dtype : {kF16, DType::kBFloat16, kF64}) ExpectRandomProducts(Library, dtype, 15);
}

TEST(TiledMatmulTest, RandomProducts) {
  ExpectRandomProducts(Tiled, kF32, 25);
  for (const DType dtype : {kF16, DType::kBFloat16, kF64}) ExpectRandomProducts(Tiled, dtype, 10);
}

TEST(TiledMatmulTest, LargeTiles) {
  std::mt19937_64 random(TestSeed());
  // Many tiles of 64 x 64; the last ones are not full.
  const auto expect = [&](DType dtype, int64_t batch, int64_t m, int64_t n) {
    HostTensor a = RandomTensor(dtype, DenseLayout({batch, m, 3}), random);
    HostTensor b = RandomTensor(dtype, DenseLayout({batch, 3, n}, {0, 2, 1}), random);
    ExpectReference(Tiled, {&a, &b}, DenseLayout({batch, m, n}));
  };
  expect(kF32, 66, 125, 128);
  expect(kF64, 40, 62, 127);
}

TEST(MatmulTest, MatricesByRowsAndColumnsAreOneCall) {
  std::mt19937_64 random(TestSeed());
  const DimVector columns = {1, 0};
  for (const DType dtype : {kF16, kF32, kF64}) {
    for (const DimVector& a_order : {DimVector{}, columns}) {
      for (const DimVector& b_order : {DimVector{}, columns}) {
        for (const DimVector& d_order : {DimVector{}, columns}) {
          HostTensor a = RandomTensor(dtype, DenseLayout({24, 40}, a_order), random);
          HostTensor b = RandomTensor(dtype, DenseLayout({40, 16}, b_order), random);
          const MatmulRunResult result = ExpectReference(Library, {&a, &b}, DenseLayout({24, 16}, d_order));
          EXPECT_EQ(result.num_products, 1);
          EXPECT_EQ(result.num_kernels, 0);
        }
      }
    }
  }
}

TEST(MatmulTest, VectorsAreMatrices) {
  std::mt19937_64 random(TestSeed());
  for (const auto& [m, k, n] : {std::array<int64_t, 3>{1, 7, 5}, {5, 7, 1}, {5, 1, 7}, {1, 9, 1}, {1, 1, 1}}) {
    for (const int64_t step : {1, 3}) {
      HostTensor a = RandomTensor(kF32, {{m, k}, {k * step, step}, 0}, random);
      HostTensor b = RandomTensor(kF32, {{k, n}, {n * step, step}, 0}, random);
      ExpectReference(Fastest, {&a, &b}, {{m, n}, {n * step, step}, 0});
    }
  }
}

TEST(MatmulTest, BatchesWithAMatrixForAllAreOneProduct) {
  std::mt19937_64 random(TestSeed());
  HostTensor a = RandomTensor(kF32, DenseLayout({4, 8, 20, 30}), random);
  HostTensor b = RandomTensor(kF32, DenseLayout({30, 10}), random);
  EXPECT_EQ(ExpectReference(Library, {&a, &b}, DenseLayout({4, 8, 20, 10})).num_products, 1);
  HostTensor left = RandomTensor(kF32, DenseLayout({12, 20}), random);
  HostTensor right = RandomTensor(kF32, DenseLayout({20, 4, 9}), random);
  // Columns of all matrices lie side by side.
  HostTensor batched(kF32, {{4, 20, 9}, {9, 36, 1}, 0});
  batched.SetValues(RandomTensor(kF32, DenseLayout({4, 20, 9}), random).Values());
  EXPECT_EQ(ExpectReference(Library, {&left, &batched}, {{4, 12, 9}, {9, 36, 1}, 0}).num_products, 1);
}

// As attention with heads in the middle: strides of [batch, head] that do not merge.
TEST(MatmulTest, HeadsInTheMiddle) {
  std::mt19937_64 random(TestSeed());
  const auto heads = [](int64_t batch, int64_t head, int64_t steps, int64_t width) {
    return StridedLayout{{batch, head, steps, width}, {steps * head * width, width, head * width, 1}, 0};
  };
  for (const DType dtype : {kF32, DType::kBFloat16}) {
    HostTensor q = RandomTensor(dtype, heads(3, 2, 17, 8), random);
    HostTensor v = RandomTensor(dtype, heads(3, 2, 17, 8), random);
    HostTensor scores = RandomTensor(dtype, DenseLayout({3, 2, 17, 17}), random);
    StridedLayout k = heads(3, 2, 17, 8);
    std::swap(k.sizes[2], k.sizes[3]);
    std::swap(k.strides[2], k.strides[3]);
    HostTensor keys = RandomTensor(dtype, k, random);
    ExpectReference(Fastest, {&q, &keys}, DenseLayout({3, 2, 17, 17}));
    ExpectReference(Fastest, {&scores, &v}, heads(3, 2, 17, 8));
  }
}

TEST(MatmulTest, LargeUnevenBatchesAreCallsOfTheLibrary) {
  std::mt19937_64 random(TestSeed());
  // K is long, so that a launch per head is faster than one kernel with short rows of tiles.
  const int64_t k = 3000;
  HostTensor a = RandomTensor(kF32, {{3, 2, 8, k}, {2 * 8 * k, k, 2 * k, 1}, 0}, random);
  HostTensor b = RandomTensor(kF32, DenseLayout({3, 2, k, 4}), random);
  HostTensor c = RandomTensor(kF32, DenseLayout({3, 2, 8, 4}), random);
  const MatmulRunResult result = ExpectReference(Fastest, {&a, &b, &c}, DenseLayout({3, 2, 8, 4}));
  EXPECT_EQ(result.num_products, 2);
  EXPECT_EQ(result.num_kernels, 0);
}

TEST(MatmulTest, OperandsWithoutADenseDimensionAreCopied) {
  std::mt19937_64 random(TestSeed());
  const int64_t k = 3000;
  for (const DType dtype : {kF16, kF32}) {
    HostTensor a = RandomTensor(dtype, {{6, k}, {2 * k, 2}, 0}, random);
    HostTensor b = RandomTensor(dtype, {{k, 5}, {3, 3 * k}, 0}, random);
    const MatmulRunResult result = ExpectReference(Library, {&a, &b}, {{6, 5}, {15, 3}, 0});
    EXPECT_EQ(result.num_products, 1);
    EXPECT_EQ(result.num_kernels, 3);
    // Rows that overlap, and a row for all.
    HostTensor overlapping = RandomTensor(dtype, {{6, k}, {1, 1}, 0}, random);
    HostTensor repeated = RandomTensor(dtype, {{k, 5}, {0, 1}, 0}, random);
    EXPECT_EQ(ExpectReference(Library, {&overlapping, &repeated}, DenseLayout({6, 5})).num_kernels, 2);
  }
}

TEST(MatmulTest, AnAddendAsStoredAsTheResultIsReadByTheLibrary) {
  std::mt19937_64 random(TestSeed());
  for (const DType dtype : {kF16, kF32, kF64}) {
    HostTensor a = RandomTensor(dtype, DenseLayout({4, 20, 30}), random);
    HostTensor b = RandomTensor(dtype, DenseLayout({4, 30, 10}), random);
    HostTensor same = RandomTensor(dtype, DenseLayout({4, 20, 10}), random);
    HostTensor one = RandomTensor(dtype, DenseLayout({20, 10}), random);
    HostTensor padded = RandomTensor(dtype, {{4, 20, 10}, {300, 14, 1}, 0}, random);
    for (HostTensor* addend : {&same, &one, &padded}) {
      const MatmulRunResult result = ExpectReference(Library, {&a, &b, addend}, DenseLayout({4, 20, 10}));
      EXPECT_EQ(result.num_products, 1);
      EXPECT_EQ(result.num_kernels, 0);
    }
  }
}

TEST(MatmulTest, ABiasIsRoundedOnceTogetherWithTheProduct) {
  std::mt19937_64 random(TestSeed());
  for (const DType dtype : {kF16, DType::kBFloat16, kF32, kF64}) {
    const int64_t k = 2000;
    HostTensor a = RandomTensor(dtype, DenseLayout({20, k}), random);
    HostTensor b = RandomTensor(dtype, DenseLayout({k, 16}, {1, 0}), random);
    HostTensor bias = RandomTensor(dtype, DenseLayout({16}), random);
    for (const int64_t misalignment : {0, 1}) {
      const MatmulRunResult result =
          ExpectReference(Library, {&a, &b, &bias}, DenseLayout({20, 16}), {.misalignment = misalignment});
      EXPECT_EQ(result.num_products, 1);
      EXPECT_EQ(result.num_kernels, 0);
    }
    // The result is copied, the bias is not.
    const MatmulRunResult guarded =
        ExpectReference(Library, {&a, &b, &bias}, DenseLayout({20, 16}), {.guarded_outputs = true});
    EXPECT_EQ(guarded.num_products, 1);
    EXPECT_EQ(guarded.num_kernels, 1);
  }
}

TEST(MatmulTest, ABiasOfTheDenseDimensionNeedsNoKernel) {
  std::mt19937_64 random(TestSeed());
  const auto kernels = [&](const DimVector& batch, int64_t m, int64_t n, const DimVector& addend,
                           const StridedLayout& output) {
    const int64_t k = 2000;
    DimVector a_sizes = batch;
    a_sizes.insert(a_sizes.end(), {m, k});
    HostTensor a = RandomTensor(kF32, DenseLayout(a_sizes), random);
    HostTensor b = RandomTensor(kF32, DenseLayout({k, n}), random);
    HostTensor c = RandomTensor(kF32, DenseLayout(addend), random);
    return ExpectReference(Library, {&a, &b, &c}, output).num_kernels;
  };
  const auto by_columns = [](int64_t m, int64_t n) { return DenseLayout({m, n}, {1, 0}); };
  EXPECT_EQ(kernels({}, 6, 5, {1, 5}, DenseLayout({6, 5})), 0);
  EXPECT_EQ(kernels({}, 6, 5, {5}, {{6, 5}, {9, 1}, 0}), 0);
  EXPECT_EQ(kernels({4}, 6, 5, {5}, DenseLayout({4, 6, 5})), 0);
  EXPECT_EQ(kernels({}, 6, 5, {6, 1}, by_columns(6, 5)), 0);
  // Results of one column or row are stored both ways.
  EXPECT_EQ(kernels({}, 6, 1, {1}, DenseLayout({6, 1})), 0);
  EXPECT_EQ(kernels({}, 6, 1, {1}, {{6, 1}, {3, 1}, 0}), 0);
  EXPECT_EQ(kernels({}, 1, 5, {1}, DenseLayout({1, 5})), 0);
  EXPECT_EQ(kernels({}, 1, 5, {5}, DenseLayout({1, 5})), 0);
  EXPECT_EQ(kernels({}, 1, 1, {1}, DenseLayout({1, 1})), 0);
  // Of the other dimension.
  EXPECT_EQ(kernels({}, 6, 5, {6, 1}, DenseLayout({6, 5})), 1);
  EXPECT_EQ(kernels({}, 6, 5, {5}, by_columns(6, 5)), 1);
  EXPECT_EQ(kernels({}, 6, 5, {1}, DenseLayout({6, 5})), 1);
}

TEST(MatmulTest, OtherVectorsAreCopiedToTheResult) {
  std::mt19937_64 random(TestSeed());
  HostTensor a = RandomTensor(kF32, DenseLayout({3, 6, 2000}), random);
  HostTensor b = RandomTensor(kF32, DenseLayout({3, 2000, 5}), random);
  HostTensor strided = RandomTensor(kF32, {{5}, {2}, 0}, random);
  HostTensor one_for_all = RandomTensor(kF32, DenseLayout({5}), random);
  HostTensor one_each = RandomTensor(kF32, DenseLayout({3, 1, 5}), random);
  for (HostTensor* addend : {&strided, &one_for_all, &one_each}) {
    const MatmulRunResult result = ExpectReference(Library, {&a, &b, addend}, DenseLayout({3, 6, 5}));
    EXPECT_EQ(result.num_products, 1);
    EXPECT_EQ(result.num_kernels, 1);
  }
}

TEST(MatmulTest, SumsOverNothingAreTheAddend) {
  std::mt19937_64 random(TestSeed());
  for (const DType dtype : {kF16, kF64, DType::kInt8}) {
    for (const bool is_guarded : {false, true}) {
      HostTensor a(dtype, DenseLayout({2, 3, 0}));
      HostTensor b(dtype, DenseLayout({0, 5}));
      HostTensor bias = RandomTensor(dtype, DenseLayout({5}), random, -9, 9);
      const StridedLayout output = {{2, 3, 5}, {30, 2, 6}, 0};
      ExpectReference(Fastest, {&a, &b}, output, {.guarded_outputs = is_guarded});
      ExpectReference(Tiled, {&a, &b, &bias}, output, {.guarded_outputs = is_guarded});
    }
  }
}

TEST(MatmulTest, EmptyResultsNeedNothing) {
  for (const DimVector& batch : {DimVector{}, DimVector{0}}) {
    DimVector a_sizes = batch;
    DimVector b_sizes = batch;
    DimVector d_sizes = batch;
    const int64_t m = batch.empty() ? 0 : 2;
    a_sizes.insert(a_sizes.end(), {m, 3});
    b_sizes.insert(b_sizes.end(), {3, 4});
    d_sizes.insert(d_sizes.end(), {m, 4});
    HostTensor a(kF32, DenseLayout(a_sizes));
    HostTensor b(kF32, DenseLayout(b_sizes));
    const MatmulRunResult result = ExpectReference(Fastest, {&a, &b}, DenseLayout(d_sizes));
    EXPECT_EQ(result.num_products + result.num_kernels, 0);
  }
}

TEST(MatmulTest, GuardedOutputsStayAsTheyAreAfterAnError) {
  std::mt19937_64 random(TestSeed());
  for (const int64_t k : {0, 3, 5000}) {  // no product, the tiled kernel, the library
    HostTensor a = RandomTensor(kF32, DenseLayout({4, k}), random);
    HostTensor b = RandomTensor(kF32, DenseLayout({k, 5}), random);
    for (PlanFunction plan : {Fastest, Tiled}) {
      HostTensor result(kF32, DenseLayout({4, 5}));
      const HostTensor untouched(kF32, DenseLayout({4, 5}));
      const absl::Status status =
          RunMatmul(plan, MatmulOp(), {&a, &b}, {&result}, {.guarded_outputs = true, .failed_before = true}).status();
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_EQ(result.bytes(), untouched.bytes());
    }
  }
}

TEST(MatmulTest, Tf32IsAPropertyOfTheDevice) {
  // Many steps, so that the library is faster.
  constexpr int64_t kSteps = 4096;
  std::vector<double> values(kSteps);
  values[0] = 1 + 1.0 / 4096;
  HostTensor a(kF32, {1, kSteps}, values);
  HostTensor b(kF32, {kSteps, 1}, std::vector<double>(kSteps, 1));
  for (const F32Precision precision : {F32Precision::kIeee, F32Precision::kTf32}) {
    HostTensor result(kF32, {1, 1});
    ASSERT_TRUE(RunMatmul(Fastest, MatmulOp(), {&a, &b}, {&result}, {.precision = precision}).ok());
    EXPECT_EQ(result.Values()[0], precision == F32Precision::kTf32 ? 1 : 1 + 1.0 / 4096);
  }
}

// Plans outputs[0] = inputs[0] * inputs[1] of dense f32 operands, by way of scratch.
absl::StatusOr<KernelPlan> PlanScale(const KernelRequest& request) {
  const auto count = static_cast<unsigned>(NumElements(request.outputs[0].layout.sizes));
  KernelPlan plan;
  plan.scratch_bytes = count * sizeof(float);
  plan.steps.push_back(MemoryCopy{ScratchArgument(0), InputArgument(1), count * 4});
  plan.steps.push_back(KernelLaunch{
      .source = {"#include \"cotan/launch.cuh\"\n"
                 "extern \"C\" __global__ void scale(const float* x, const float* y, float* to) {\n"
                 "  cotan::WaitForEarlierWork();\n  to[threadIdx.x] = x[threadIdx.x] * y[threadIdx.x];\n}\n",
                 "scale"},
      .block = {count, 1, 1},
      .arguments = {InputArgument(0), ScratchArgument(0), OutputArgument(0)}});
  plan.error_at = [](int64_t, int64_t) { return absl::InternalError("planned"); };
  return plan;
}

TEST(MatmulTest, TheEpilogueOfALongSumReadsTheProductFromScratch) {
  std::mt19937_64 random(TestSeed());
  for (const int64_t k : {4100, 4200}) {
    HostTensor a = RandomTensor(kF32, {{6, k}, {2 * k + 1, 2}, 0}, random);  // copied to scratch for the library
    HostTensor b = RandomTensor(kF32, DenseLayout({k, 7}), random);
    HostTensor scale = RandomTensor(kF32, DenseLayout({6, 7}), random);
    ExprBuilder builder({6, 7});
    builder.Output(builder.Mul(builder.Input(0, kF32), builder.Input(1, kF32)));
    serialization::Op op = MatmulOp();
    *op.mutable_matmul()->mutable_epilogue() = builder.expr();
    HostTensor expected(kF32, DenseLayout({6, 7}));
    ASSERT_TRUE(RunOp(reference::MakeMatmul, op, {&a, &b, &scale}, {&expected}).ok());
    const auto plan = [](const KernelRequest& request) {
      absl::StatusOr<KernelPlan> plan = PlanMatmul(request, PlanScale);
      EXPECT_EQ(plan->error_at(0, 0).message(), "planned");
      return plan;
    };
    // The result takes the place of the scale.
    HostTensor state = scale;
    const absl::Status status = RunMatmul(plan, op, {&a, &b, &state}, {&state}).status();
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_LE(ErrorInUnits(state, expected.Values()), cotan::testing::kMatmul);
  }
}

TEST(TiledMatmulTest, OperandsAreReadOncePerTileAndResultsDoNotDependOnTheOrderOfBlocks) {
  std::mt19937_64 random(TestSeed());
  const int64_t side = 96;
  HostTensor a = RandomTensor(kF32, DenseLayout({side, side}), random);
  HostTensor b = RandomTensor(kF32, DenseLayout({side, side}), random);
  HostTensor first(kF32, DenseLayout({side, side}));
  HostTensor second(kF32, DenseLayout({side, side}));
  const auto run = [&](HostTensor& result, uint64_t seed) {
    return testing::RunPlan(Tiled, MatmulOp(), {&a, &b}, {&result}, {.seed = seed});
  };
  const absl::StatusOr<testing::RunResult> result = run(first, 0);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_TRUE(run(second, 77).ok());
  EXPECT_EQ(first.bytes(), second.bytes());
  // 6 x 6 tiles: each operand is read six times, in whole sectors of 32 bytes.
  EXPECT_EQ(result->counters.global_load_sectors, 2 * 6 * side * side * sizeof(float) / 32);
  EXPECT_EQ(result->counters.global_store_sectors, side * side * sizeof(float) / 32);
}

TEST(TiledMatmulTest, SharedMemoryIsUsedWithFewConflicts) {
  std::mt19937_64 random(TestSeed());
  const DimVector columns = {1, 0};
  // Tiles of 64 x 64, 32 x 32, 16 x 32, 16 x 16 and 8 x 8.
  for (const auto& [m, k, n] :
       {std::array<int64_t, 3>{1024, 16, 512}, {512, 32, 512}, {512, 128, 128}, {128, 128, 128}, {32, 128, 64}}) {
    for (const DimVector& a_order : {DimVector{}, columns}) {
      for (const DimVector& b_order : {DimVector{}, columns}) {
        HostTensor a = RandomTensor(kF32, DenseLayout({m, k}, a_order), random);
        HostTensor b = RandomTensor(kF32, DenseLayout({k, n}, b_order), random);
        HostTensor d(kF32, DenseLayout({m, n}));
        const absl::StatusOr<testing::RunResult> result = testing::RunPlan(Tiled, MatmulOp(), {&a, &b}, {&d}, {});
        ASSERT_TRUE(result.ok()) << result.status();
        EXPECT_LE(static_cast<double>(result->counters.shared_bank_conflicts),
                  0.1 * static_cast<double>(result->counters.shared_accesses))
            << m << " " << k << " " << n << (a_order.empty() ? " a by rows" : " a by columns")
            << (b_order.empty() ? ", b by rows" : ", b by columns");
      }
    }
  }
}

}  // namespace
}  // namespace cotan::cuda
