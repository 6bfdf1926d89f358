// SPDX-License-Identifier: Apache-2.0

// The structure of plans of matmul ops.
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cublaslt/product_call.h"
#include "kernels/cuda/matmul/library_matmul.h"
#include "kernels/cuda/matmul/matmul.h"
#include "kernels/cuda/matmul/matmul_problem.h"
#include "kernels/testing/random_case.h"

namespace cotan::cuda {
namespace {

using cotan::testing::DenseLayout;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<KernelPlan> NoEpilogue(const KernelRequest&) { return absl::InternalError("there is no epilogue"); }

// A matmul op of f32.
struct Request {
  Request(std::vector<StridedLayout> layouts, const StridedLayout& output, DType dtype = DType::kFloat32) {
    op.mutable_matmul();
    for (StridedLayout& layout : layouts) inputs.push_back({dtype, std::move(layout)});
    outputs.push_back({dtype, output});
  }
  KernelRequest Get() const {
    return {.op = op, .inputs = inputs, .outputs = outputs, .symbols = {}, .guarded_outputs = guarded};
  }
  MatmulProblem Problem() const { return *AnalyzeMatmul(Get()); }
  KernelPlan Plan() const { return *PlanMatmul(Get(), NoEpilogue); }
  KernelPlan Library() const { return PlanLibraryProduct(Problem(), guarded, /*scratch_begin=*/0)->plan; }

  serialization::Op op;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  bool guarded = false;
};

// Returns the product of the one step of a plan.
ProductDescription OnlyProduct(const KernelPlan& plan) {
  EXPECT_EQ(plan.steps.size(), 1u);
  const auto* call = std::get_if<LibraryCall>(&plan.steps.at(0));
  if (call == nullptr) {
    ADD_FAILURE() << "the step is not a library call";
    return {};
  }
  return static_cast<const ProductCall&>(*call->spec).description();
}

TEST(MatmulProblemTest, EvenBatchesMerge) {
  const MatmulProblem problem =
      Request({DenseLayout({2, 3, 4, 5}), DenseLayout({2, 3, 5, 6})}, DenseLayout({2, 3, 4, 6})).Problem();
  ASSERT_EQ(problem.batch.size(), 1u);
  EXPECT_EQ(problem.batch[0].size, 6);
  EXPECT_THAT(problem.batch[0].strides, ElementsAre(20, 30, 0, 24));
}

TEST(MatmulProblemTest, ABatchInAnotherOrderMerges) {
  const DimVector order = {1, 0, 2, 3};
  const MatmulProblem problem =
      Request({DenseLayout({2, 3, 4, 5}, order), DenseLayout({2, 3, 5, 6}, order)}, DenseLayout({2, 3, 4, 6}, order))
          .Problem();
  EXPECT_EQ(problem.batch.size(), 1u);
}

TEST(MatmulProblemTest, AMatrixForAllMakesRowsOfTheBatch) {
  const MatmulProblem problem =
      Request({DenseLayout({7, 4, 5}), DenseLayout({5, 6}), DenseLayout({6})}, DenseLayout({7, 4, 6})).Problem();
  EXPECT_TRUE(problem.batch.empty());
  EXPECT_EQ(problem.m, 28);
  // Not if the addend differs between rows.
  EXPECT_EQ(
      Request({DenseLayout({7, 4, 5}), DenseLayout({5, 6}), DenseLayout({4, 6})}, DenseLayout({7, 4, 6})).Problem().m,
      4);
}

TEST(MatmulProblemTest, SingleRowsOfABatchAreAMatrix) {
  const MatmulProblem problem =
      Request({DenseLayout({7, 1, 5}), DenseLayout({5, 6})}, DenseLayout({7, 1, 6})).Problem();
  EXPECT_EQ(problem.m, 7);
  EXPECT_EQ(problem[kMatmulA].row_stride, 5);
}

TEST(MatmulProblemTest, RowsThatOverlapAreNotMerged) {
  // Column-major matrices whose columns overlap if the batch's rows are joined.
  const StridedLayout a = {{2, 3, 4}, {3, 1, 4}, 0};
  EXPECT_EQ(Request({a, DenseLayout({4, 5})}, {{2, 3, 5}, {3, 1, 6}, 0}).Problem().m, 3);
}

TEST(BlasStorageTest, UnitStridesAreFree) {
  const auto find = [](int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride) {
    return FindBlasStorage(rows, columns, {row_stride, column_stride, {}});
  };
  EXPECT_EQ(find(3, 4, 4, 1)->leading_dimension, 4);
  EXPECT_TRUE(find(3, 4, 4, 1)->transposed);
  EXPECT_EQ(find(3, 4, 1, 8)->leading_dimension, 8);
  EXPECT_FALSE(find(3, 4, 1, 8)->transposed);
  EXPECT_EQ(find(1, 4, 0, 9)->leading_dimension, 9);
  EXPECT_EQ(find(3, 1, 9, 0)->leading_dimension, 9);
  EXPECT_EQ(find(1, 1, 0, 0)->leading_dimension, 1);
  EXPECT_EQ(find(3, 4, 3, 1), std::nullopt);  // overlaps
  EXPECT_EQ(find(3, 4, 0, 1), std::nullopt);
  EXPECT_EQ(find(3, 4, 8, 2), std::nullopt);
}

TEST(MatmulPlanTest, AResultByRowsIsTheTransposedProduct) {
  const ProductDescription product =
      OnlyProduct(Request({DenseLayout({3, 5}), DenseLayout({5, 4})}, DenseLayout({3, 4})).Library());
  EXPECT_EQ(product.m, 4);
  EXPECT_EQ(product.n, 3);
  EXPECT_EQ(product.k, 5);
  EXPECT_EQ(product.a, (ProductMatrix{.leading_dimension = 4}));
  EXPECT_EQ(product.b, (ProductMatrix{.leading_dimension = 5}));
  EXPECT_EQ(product.d, (ProductMatrix{.leading_dimension = 4}));
}

TEST(MatmulPlanTest, AResultByColumnsExchangesNothing) {
  const ProductDescription product =
      OnlyProduct(Request({DenseLayout({3, 5}), DenseLayout({5, 4})}, DenseLayout({3, 4}, {1, 0})).Library());
  EXPECT_EQ(product.m, 3);
  EXPECT_EQ(product.a, (ProductMatrix{.leading_dimension = 5, .transposed = true}));
  EXPECT_EQ(product.d, (ProductMatrix{.leading_dimension = 3}));
}

TEST(MatmulPlanTest, ABiasOfTheColumnsIsAnEpilogue) {
  const ProductDescription product = OnlyProduct(
      Request({DenseLayout({7, 3, 5}), DenseLayout({5, 4}, {1, 0}), DenseLayout({4})}, DenseLayout({7, 3, 4}))
          .Library());
  EXPECT_EQ(product.addend, ProductAddend::kBias);
  EXPECT_EQ(product.m, 4);
  EXPECT_EQ(product.n, 21);
  EXPECT_EQ(product.c, ProductMatrix{});
  EXPECT_EQ(product.calls.size(), 1u);
}

TEST(MatmulPlanTest, ABiasOfTheRowsOfAResultByColumnsIsAnEpilogue) {
  const ProductDescription product = OnlyProduct(
      Request({DenseLayout({3, 5}), DenseLayout({5, 4}), DenseLayout({3, 1})}, DenseLayout({3, 4}, {1, 0})).Library());
  EXPECT_EQ(product.addend, ProductAddend::kBias);
  EXPECT_EQ(product.m, 3);
}

TEST(MatmulPlanTest, AVeryLongBiasIsCopiedToTheResult) {
  const auto num_steps = [](int64_t n) {
    return Request({DenseLayout({600, 700}), DenseLayout({700, n}), DenseLayout({n})}, DenseLayout({600, n}))
        .Plan()
        .steps.size();
  };
  EXPECT_EQ(num_steps(1 << 18), 1u);
  EXPECT_EQ(num_steps((1 << 18) + 1), 2u);
}

// The shapes of training a small GPT, [8 * 64 tokens, width], and an MLP. Weights are [outputs, inputs].
TEST(MatmulPlanTest, LinearLayersAndTheirGradientsAreOneLaunch) {
  const DimVector columns = {1, 0};
  const std::array<int64_t, 3> shapes[] = {{512, 128, 384}, {512, 128, 128}, {512, 128, 512}, {512, 512, 128},
                                           {32, 784, 256},  {32, 256, 128},  {32, 128, 10}};
  for (const auto& [rows, inputs, outputs] : shapes) {
    const StridedLayout x = DenseLayout({rows, inputs});
    const StridedLayout y = DenseLayout({rows, outputs});
    const StridedLayout weight = DenseLayout({outputs, inputs});
    const StridedLayout weight_transposed = DenseLayout({inputs, outputs}, columns);
    const StridedLayout y_transposed = DenseLayout({outputs, rows}, columns);
    EXPECT_EQ(Request({x, weight_transposed, DenseLayout({outputs})}, y).Plan().steps.size(), 1u);
    EXPECT_EQ(Request({x, weight_transposed}, y).Plan().steps.size(), 1u);
    EXPECT_EQ(Request({y, weight}, x).Plan().steps.size(), 1u);
    EXPECT_EQ(Request({y_transposed, x}, weight).Plan().steps.size(), 1u);
  }
}

// As above: 4 heads of 32 channels, side by side in the rows of queries, keys and values.
TEST(MatmulPlanTest, AttentionAndItsGradientsAreOneLaunchEach) {
  const StridedLayout heads = {{8, 4, 64, 32}, {64 * 384, 32, 384, 1}, 0};
  const StridedLayout heads_transposed = {{8, 4, 32, 64}, {64 * 384, 32, 1, 384}, 0};
  const StridedLayout result = {{8, 4, 64, 32}, {64 * 128, 32, 128, 1}, 0};
  const StridedLayout scores = DenseLayout({8, 4, 64, 64});
  const StridedLayout scores_transposed = DenseLayout({8, 4, 64, 64}, {0, 1, 3, 2});
  EXPECT_EQ(Request({heads, heads_transposed}, scores).Plan().steps.size(), 1u);
  EXPECT_EQ(Request({scores, heads}, result).Plan().steps.size(), 1u);
  EXPECT_EQ(Request({result, heads_transposed}, scores).Plan().steps.size(), 1u);
  EXPECT_EQ(Request({scores, heads}, DenseLayout({8, 4, 64, 32})).Plan().steps.size(), 1u);
  EXPECT_EQ(Request({scores_transposed, result}, DenseLayout({8, 4, 64, 32})).Plan().steps.size(), 1u);
  EXPECT_EQ(Request({heads_transposed, scores}, DenseLayout({8, 4, 32, 64})).Plan().steps.size(), 1u);
}

TEST(MatmulPlanTest, HugeBatchesAreSeveralCalls) {
  const int64_t count = 2 * 65535 + 7;
  const std::optional<LibraryMatmulPlan> library = PlanLibraryProduct(
      Request({DenseLayout({count, 2, 3}), DenseLayout({count, 3, 2})}, DenseLayout({count, 2, 2})).Problem(), false,
      0);
  ASSERT_TRUE(library.has_value());
  ASSERT_EQ(library->plan.steps.size(), 2u);
  const auto& all = static_cast<const ProductCall&>(*std::get<LibraryCall>(library->plan.steps[0]).spec).description();
  EXPECT_EQ(all.batch_count, 65535);
  EXPECT_THAT(all.calls, ElementsAre(ProductOffsets{}, ProductOffsets{65535 * 6, 65535 * 6, 0, 65535 * 4}));
  const auto& rest = static_cast<const ProductCall&>(*std::get<LibraryCall>(library->plan.steps[1]).spec).description();
  EXPECT_EQ(rest.batch_count, 7);
  EXPECT_EQ(rest.calls[0].d, 2 * 65535 * 4);
}

TEST(MatmulPlanTest, UnevenBatchesAreOneTiledKernelIfSmallAndCallsIfLarge) {
  const auto plan = [](int64_t steps) {
    const StridedLayout heads = {{8, 4, steps, 32}, {steps * 128, 32, 128, 1}, 0};
    const StridedLayout keys = {{8, 4, 32, steps}, {steps * 128, 32, 1, 128}, 0};
    return Request({heads, keys}, DenseLayout({8, 4, steps, steps})).Plan();
  };
  const KernelPlan small = plan(64);
  ASSERT_EQ(small.steps.size(), 1u);
  EXPECT_EQ(std::get<KernelLaunch>(small.steps[0]).source.entry, "matmul_tiles");
  const ProductDescription large = OnlyProduct(plan(1024));
  EXPECT_EQ(large.batch_count, 8);
  EXPECT_EQ(large.calls.size(), 4u);
}

TEST(MatmulPlanTest, SmallProductsAreTiled) {
  const auto is_tiled = [](DType dtype, int64_t m, int64_t k, int64_t n) {
    const KernelPlan plan = Request({DenseLayout({m, k}), DenseLayout({k, n})}, DenseLayout({m, n}), dtype).Plan();
    return std::holds_alternative<KernelLaunch>(plan.steps.at(0));
  };
  EXPECT_TRUE(is_tiled(DType::kFloat32, 1024, 128, 512));
  EXPECT_FALSE(is_tiled(DType::kFloat32, 1024, 256, 512));
  EXPECT_TRUE(is_tiled(DType::kFloat32, 32, 2048, 10));
  EXPECT_FALSE(is_tiled(DType::kFloat32, 32, 2049, 10));
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16, DType::kFloat64}) {
    EXPECT_TRUE(is_tiled(dtype, 32, 784, 256));
    EXPECT_FALSE(is_tiled(dtype, 512, 128, 128));
  }
}

// Products keep the processors of an H100 busy if they can, with tiles that are as large as possible.
TEST(MatmulPlanTest, TilesAreAsLargeAsLeavesNoProcessorIdle) {
  const auto launch = [](int64_t m, int64_t k, int64_t n) {
    const KernelPlan plan = Request({DenseLayout({m, k}), DenseLayout({k, n})}, DenseLayout({m, n})).Plan();
    const auto& launch = std::get<KernelLaunch>(plan.steps.at(0));
    return std::array<unsigned, 2>{launch.grid[0], launch.block[0]};
  };
  EXPECT_THAT(launch(1024, 128, 512), ElementsAre(16 * 8, 256));  // 64 x 64
  EXPECT_THAT(launch(512, 128, 512), ElementsAre(16 * 16, 128));  // 32 x 32, 4 slices of 32 steps
  EXPECT_THAT(launch(1024, 512, 128), ElementsAre(32 * 4, 256));  // 32 x 32, 8 slices
  EXPECT_THAT(launch(512, 512, 128), ElementsAre(32 * 4, 256));   // 16 x 32
  EXPECT_THAT(launch(128, 512, 128), ElementsAre(8 * 8, 512));    // 16 x 16, 16 slices
  EXPECT_THAT(launch(32, 784, 256), ElementsAre(4 * 32, 512));    // 8 x 8
  EXPECT_THAT(launch(32, 128, 10), ElementsAre(4 * 2, 256));      // 8 x 8, 8 slices
  EXPECT_THAT(launch(10, 32, 128), ElementsAre(2 * 16, 128));     // 4 slices of 8 steps
  EXPECT_THAT(launch(1, 1, 1), ElementsAre(1, 32));
}

TEST(MatmulPlanTest, IntegersAreTiled) {
  const KernelPlan plan =
      Request({DenseLayout({300, 500}), DenseLayout({500, 400})}, DenseLayout({300, 400}), DType::kInt64).Plan();
  ASSERT_EQ(plan.steps.size(), 1u);
  EXPECT_THAT(std::get<KernelLaunch>(plan.steps[0]).source.text, HasSubstr("Element = cotan::int64"));
}

TEST(MatmulPlanTest, GuardedResultsOfTheLibraryAreCopied) {
  Request request({DenseLayout({1024, 1024}), DenseLayout({1024, 1024})}, DenseLayout({1024, 1024}));
  request.guarded = true;
  const KernelPlan plan = request.Plan();
  ASSERT_EQ(plan.steps.size(), 2u);
  EXPECT_EQ(plan.scratch_bytes, size_t{4} << 20);
  EXPECT_EQ(std::get<LibraryCall>(plan.steps[0]).arguments[2], ScratchArgument(0));
  EXPECT_EQ(std::get<KernelLaunch>(plan.steps[1]).arguments.back(), ErrorRecordArgument());
}

TEST(MatmulPlanTest, IndicesAreAsWideAsExtentsNeed) {
  const auto text = [](int64_t rows) {
    const KernelPlan plan =
        Request({DenseLayout({rows, 1 << 10}), DenseLayout({1 << 10, 8})}, DenseLayout({rows, 8}), DType::kInt32)
            .Plan();
    return std::get<KernelLaunch>(plan.steps[0]).source.text;
  };
  EXPECT_THAT(text(1 << 20), HasSubstr("Index = int;"));
  EXPECT_THAT(text(1 << 21), HasSubstr("Index = long long;"));
}

TEST(MatmulPlanTest, InvalidOperandsAreRejected) {
  const absl::Status status =
      PlanMatmul(Request({DenseLayout({2, 3}), DenseLayout({4, 5})}, DenseLayout({2, 5})).Get(), NoEpilogue).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("expected f32[3,5]"));
}

}  // namespace
}  // namespace cotan::cuda
