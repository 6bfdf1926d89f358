// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/matmul_plan.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/matmul_cases.h"

namespace cotan::cuda {
namespace {

using ::testing::HasSubstr;

// Executes the plan as BLAS does.
std::vector<float> Execute(const MatmulPlan& plan, const std::vector<std::vector<float>>& inputs, size_t output_size) {
  std::vector<float> output(output_size);
  const auto at = [](const BlasMatrix& matrix, int64_t batch, int64_t row, int64_t column) {
    if (matrix.transposed) std::swap(row, column);
    EXPECT_LT(row, matrix.rows);
    EXPECT_LT(column, matrix.columns);
    EXPECT_GE(matrix.leading_dimension, matrix.rows);
    return batch * matrix.batch_stride + column * matrix.leading_dimension + row;
  };
  for (const MatmulOffsets& offsets : plan.calls) {
    for (int64_t batch = 0; batch < plan.batch; ++batch) {
      for (int64_t row = 0; row < plan.m; ++row) {
        for (int64_t column = 0; column < plan.n; ++column) {
          float sum = 0;
          if (plan.addend == MatmulAddend::kBias)
            sum = inputs[2][offsets.addend + batch * plan.bias_batch_stride + row];
          if (plan.addend == MatmulAddend::kMatrix) sum = inputs[2][offsets.addend + at(plan.c, batch, row, column)];
          for (int64_t k = 0; k < plan.k; ++k) {
            sum += inputs[1][offsets.rhs + at(plan.a, batch, row, k)] *
                   inputs[0][offsets.lhs + at(plan.b, batch, k, column)];
          }
          output[offsets.output + at(plan.d, batch, row, column)] = sum;
        }
      }
    }
  }
  return output;
}

TEST(PlanMatmul, ComputesWhatTheOpDefines) {
  for (const MatmulCase& test : MatmulCases()) {
    SCOPED_TRACE(test.name);
    const OpRequest request = MatmulRequest(test.inputs, test.output);
    absl::StatusOr<MatmulPlan> plan = PlanMatmul(request.For(nullptr));
    ASSERT_TRUE(plan.ok()) << plan.status();
    std::vector<std::vector<float>> inputs;
    for (const StridedLayout& layout : test.inputs)
      inputs.push_back(TestValues(layout, static_cast<int>(inputs.size())));
    EXPECT_EQ(Execute(*plan, inputs, StorageExtent(test.output)), ExpectedMatmul(request, inputs));
  }
}

TEST(PlanMatmul, PutsEvenlySpacedBatchesIntoOneCall) {
  const OpRequest request =
      MatmulRequest({Contiguous({2, 6, 3, 5}), Contiguous({2, 6, 5, 4})}, Contiguous({2, 6, 3, 4}));
  absl::StatusOr<MatmulPlan> plan = PlanMatmul(request.For(nullptr));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->batch, 12);
  EXPECT_EQ(plan->calls.size(), 1u);
}

TEST(PlanMatmul, EmptyOutputNeedsNoCall) {
  const OpRequest request = MatmulRequest({Contiguous({0, 5}), Contiguous({5, 4})}, Contiguous({0, 4}));
  absl::StatusOr<MatmulPlan> plan = PlanMatmul(request.For(nullptr));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(plan->calls.empty());
}

TEST(PlanMatmul, RejectsOperandsThatDoNotFit) {
  const OpRequest request = MatmulRequest({Contiguous({3, 5}), Contiguous({6, 4})}, Contiguous({3, 4}));
  const absl::Status status = PlanMatmul(request.For(nullptr)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("input 1 is f32[6,4], expected f32[5,4]"));
}

TEST(PlanMatmul, RejectsMatricesWithoutAContiguousDimension) {
  const StridedLayout strided{.sizes = {3, 5}, .strides = {20, 2}};
  const OpRequest request = MatmulRequest({strided, Contiguous({5, 4})}, Contiguous({3, 4}));
  const absl::Status status = PlanMatmul(request.For(nullptr)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), HasSubstr("input 0 [3,5]{20,2}"));
}

TEST(PlanMatmul, RejectsAColumnAsAddend) {
  const OpRequest request =
      MatmulRequest({Contiguous({3, 5}), Contiguous({5, 4}), Contiguous({3, 1})}, Contiguous({3, 4}));
  EXPECT_EQ(PlanMatmul(request.For(nullptr)).status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace cotan::cuda
