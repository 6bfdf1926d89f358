// SPDX-License-Identifier: Apache-2.0

// Compiles functions whose sizes depend on data with a declared maximum, and calls them with data of many counts beside
// LibTorch eager: results of the same sizes, gradients, and calls with more elements than were declared.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "testing/ops/compiled_function.h"
#include "testing/ops/tensor_bridge.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

constexpr uint64_t kSeed = 2026;

at::Tensor Longs(std::vector<int64_t> values) { return at::tensor(values, at::kLong); }

aot::CompileOptions WithMaximum(int64_t max, int64_t min = 0) {
  aot::CompileOptions options;
  options.tracing.data_dependent_sizes.range = aot::SizeRange{.min = min, .max = max};
  return options;
}

// Returns scores of `size` elements, `count` of which are above 0.5.
at::Tensor Scores(int64_t size, int64_t count) {
  const at::Tensor high = at::rand({count}, at::kDouble) * 0.4 + 0.55;
  const at::Tensor low = at::rand({size - count}, at::kDouble) * 0.4;
  return at::cat({high, low}).index_select(0, at::randperm(size));
}

void ExpectEqual(const at::Tensor& actual, const at::Tensor& expected) {
  ASSERT_EQ(actual.sizes(), expected.sizes());
  ASSERT_EQ(actual.scalar_type(), expected.scalar_type());
  if (expected.is_floating_point()) {
    if (expected.numel() > 0) {
      EXPECT_LE(ErrorOf(actual, expected), kMatmul) << actual << expected;
    }
  } else {
    EXPECT_TRUE(at::equal(actual, expected)) << actual << "\ninstead of\n" << expected;
  }
}

// Compiles `function` for the first inputs and compares its results for all of them.
void ExpectAsEager(const aot::TensorFunction& function, const std::vector<Tensors>& calls,
                   const aot::CompileOptions& options) {
  absl::StatusOr<CompiledFunction> compiled = CompiledFunction::Create(function, calls[0], false, options);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  for (const Tensors& inputs : calls) {
    const Tensors expected = function(inputs);
    const absl::StatusOr<Tensors> results = compiled->Call(inputs);
    ASSERT_TRUE(results.ok()) << results.status();
    ASSERT_EQ(results->size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) ExpectEqual((*results)[i], expected[i]);
  }
}

// Compares results and the gradients of all inputs, with random tangents of the first result.
void ExpectGradientsAsEager(const aot::TensorFunction& function, const std::vector<Tensors>& calls,
                            const aot::CompileOptions& options) {
  absl::StatusOr<CompiledFunction> compiled = CompiledFunction::Create(function, calls[0], true, options);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  for (const Tensors& inputs : calls) {
    const Tensors leaves = Leaves(inputs, true);
    const Tensors expected = function(leaves);
    const at::Tensor tangent = at::randn_like(expected[0]);
    expected[0].backward(tangent);
    const absl::StatusOr<Tensors> results = compiled->Call(inputs);
    ASSERT_TRUE(results.ok()) << results.status();
    for (size_t i = 0; i < expected.size(); ++i) ExpectEqual((*results)[i], expected[i].detach());
    std::vector<bool> roots(expected.size(), false);
    roots[0] = true;
    const absl::StatusOr<Tensors> gradients = compiled->Gradients(inputs, roots, {tangent});
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    size_t next = 0;
    for (const at::Tensor& leaf : leaves) {
      if (!leaf.requires_grad()) continue;
      const at::Tensor& gradient = (*gradients)[next++];
      ASSERT_EQ(gradient.defined(), leaf.grad().defined());
      if (leaf.grad().defined()) {
        EXPECT_LE(ErrorOf(gradient, leaf.grad()), kModelGradient);
      }
    }
  }
}

TEST(DataSizesTest, NonzeroHasAsManyRowsAsTheData) {
  at::manual_seed(kSeed);
  const auto function = [](const Tensors& in) -> Tensors {
    const at::Tensor rows = at::nonzero(in[1] > 0.5).squeeze(1);
    return {in[0].index_select(0, rows).sum(0), rows, in[0].index_select(0, rows)};
  };
  std::vector<Tensors> calls;
  for (const int64_t count : {5, 0, 1, 2, 9, 12}) calls.push_back({at::randn({20, 3}, at::kDouble), Scores(20, count)});
  ExpectAsEager(function, calls, WithMaximum(12));
}

TEST(DataSizesTest, GradientsAreThoseOfTheElementsThatWereTaken) {
  at::manual_seed(kSeed);
  const auto function = [](const Tensors& in) -> Tensors {
    const at::Tensor rows = at::nonzero(in[1] > 0.5).squeeze(1);
    const at::Tensor taken = in[0].index_select(0, rows).matmul(in[2]).tanh();
    return {(taken * in[1].index_select(0, rows).unsqueeze(1)).sum(0)};
  };
  std::vector<Tensors> calls;
  for (const int64_t count : {4, 0, 1, 7, 20}) {
    calls.push_back({at::randn({20, 3}, at::kDouble), Scores(20, count), at::randn({3, 2}, at::kDouble)});
  }
  ExpectGradientsAsEager(function, calls, WithMaximum(20));
}

TEST(DataSizesTest, MoreElementsThanDeclaredAreRefused) {
  at::manual_seed(kSeed);
  const auto function = [](const Tensors& in) -> Tensors { return {at::nonzero(in[0] > 0.5)}; };
  absl::StatusOr<CompiledFunction> compiled =
      CompiledFunction::Create(function, {Scores(10, 4)}, false, WithMaximum(6, /*min=*/2));
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  for (const int64_t count : {7, 1, 0, 10}) {
    const absl::Status status = compiled->Call({Scores(10, count)}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(status.message(), HasSubstr("nonzero has " + std::to_string(count) + " elements, and 2 to 6"));
  }
  EXPECT_TRUE(compiled->Call({Scores(10, 6)}).ok());
}

// The mask, and a tensor with its sizes or those of the rest of the dimensions.
std::vector<Tensors> MaskedCalls(std::vector<int64_t> counts) {
  std::vector<Tensors> calls;
  for (const int64_t count : counts) {
    calls.push_back({at::randn({4, 5, 3}, at::kDouble), Scores(20, count).view({4, 5})});
  }
  return calls;
}

TEST(DataSizesTest, MaskedSelectTakesElementsOfTheBroadcastTensor) {
  at::manual_seed(kSeed);
  const auto function = [](const Tensors& in) -> Tensors {
    const at::Tensor taken = at::masked_select(in[0], (in[1] > 0.5).unsqueeze(2));
    return {taken.exp().sum(), taken};
  };
  ExpectGradientsAsEager(function, MaskedCalls({3, 0, 1, 8, 20}), WithMaximum(60));
}

TEST(DataSizesTest, AMaskIndexesSeveralDimensions) {
  at::manual_seed(kSeed);
  const auto function = [](const Tensors& in) -> Tensors {
    const at::Tensor mask = in[1] > 0.5;
    const at::Tensor rows = in[0].index({mask});
    return {(rows * in[1].index({mask}).unsqueeze(1)).sum(0), rows};
  };
  ExpectGradientsAsEager(function, MaskedCalls({3, 0, 1, 8, 20}), WithMaximum(20));
}

TEST(DataSizesTest, AMaskMayFollowOtherDimensions) {
  at::manual_seed(kSeed);
  const auto function = [](const Tensors& in) -> Tensors {
    const at::Tensor mask = in[1].select(0, 1) > 0.5;
    const at::Tensor columns = in[0].index({at::indexing::Slice(), mask});
    return {columns.sum(1), columns};
  };
  ExpectGradientsAsEager(function, MaskedCalls({10, 0, 20, 5}), WithMaximum(5));
}

TEST(DataSizesTest, AMaskOfWritesTakesOneValuePerElement) {
  at::manual_seed(kSeed);
  const auto function = [](const Tensors& in) -> Tensors {
    const at::Tensor mask = in[1] > 0.5;
    at::Tensor written = in[0] * 2;
    written.index_put_({mask}, in[0].index({mask}).sin());
    return {written};
  };
  ExpectGradientsAsEager(function, MaskedCalls({3, 0, 1, 8, 20}), WithMaximum(20));
}

TEST(DataSizesTest, UniqueReturnsValuesTheirPlacesAndCounts) {
  const auto function = [](const Tensors& in) -> Tensors {
    const auto [values, inverse, counts] = at::_unique2(in[0], /*sorted=*/true, true, true);
    return {values, inverse, counts};
  };
  ExpectAsEager(function,
                {{Longs({3, 1, 3, 2, 1, 3})},
                 {Longs({4, 4, 4, 4, 4, 4})},
                 {Longs({6, 5, 4, 3, 2, 1})},
                 {Longs({-1, 7, -1, 7, 7, -1})}},
                WithMaximum(6));
}

TEST(DataSizesTest, UniqueConsecutiveComparesNeighbours) {
  const auto flat = [](const Tensors& in) -> Tensors {
    const auto [values, inverse, counts] = at::unique_consecutive(in[0], true, true);
    return {values, inverse, counts};
  };
  ExpectAsEager(
      flat, {{Longs({3, 3, 1, 1, 3, 3, 3, 2})}, {Longs({4, 4, 4, 4, 4, 4, 4, 4})}, {Longs({1, 2, 1, 2, 1, 2, 1, 2})}},
      WithMaximum(8));
  const auto rows = [](const Tensors& in) -> Tensors {
    const auto [values, inverse, counts] = at::unique_consecutive(in[0], true, true, /*dim=*/0);
    return {values, inverse, counts};
  };
  ExpectAsEager(rows, {{Longs({3, 3, 3, 3, 1, 1, 3, 3}).view({4, 2})}, {Longs({1, 2, 2, 1, 1, 1, 2, 2}).view({4, 2})}},
                WithMaximum(4));
}

TEST(DataSizesTest, RepeatInterleaveRepeatsUpToTheMaximum) {
  at::manual_seed(kSeed);
  const auto function = [](const Tensors& in) -> Tensors {
    const at::Tensor rows = at::repeat_interleave(in[0], in[1], 0);
    return {(rows * rows).sum(0), rows};
  };
  std::vector<Tensors> calls;
  for (const at::Tensor& repeats :
       {Longs({1, 2, 0, 3}), Longs({0, 0, 0, 0}), Longs({0, 1, 0, 0}), Longs({10, 0, 0, 2}), Longs({0, 0, 12, 0})}) {
    calls.push_back({at::randn({4, 2}, at::kDouble), repeats});
  }
  ExpectGradientsAsEager(function, calls, WithMaximum(12));
  absl::StatusOr<CompiledFunction> compiled = CompiledFunction::Create(function, calls[0], false, WithMaximum(12));
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const absl::Status many = compiled->Call({calls[0][0], Longs({4, 4, 4, 4})}).status();
  EXPECT_THAT(many.message(), HasSubstr("repeat_interleave has 16 elements"));
  const absl::Status negative = compiled->Call({calls[0][0], Longs({4, -1, 4, 4})}).status();
  EXPECT_EQ(negative.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(negative.message(), HasSubstr("negative number of elements"));
}

// The second mask is of rows that the first one took.
TEST(DataSizesTest, CountsMayDependOnCountedRows) {
  at::manual_seed(kSeed);
  const auto function = [](const Tensors& in) -> Tensors {
    const at::Tensor found = in[1] > 0.5;
    const at::Tensor rows = in[0].index({found}).matmul(in[2]);
    const at::Tensor second = rows.index({rows.select(1, 0) > 0});
    return {second.sin().sum(0) + rows.sum(0), second, rows};
  };
  std::vector<Tensors> calls;
  for (const int64_t count : {6, 0, 1, 12, 3, 20}) {
    calls.push_back({at::randn({20, 3}, at::kDouble), Scores(20, count), at::randn({3, 2}, at::kDouble)});
  }
  ExpectGradientsAsEager(function, calls, WithMaximum(20));
}

// The result of the convolution, whose layout the compiler chooses, is counted and taken from.
TEST(DataSizesTest, ConvolutionsMayBeCountedAndTakenFrom) {
  at::manual_seed(kSeed);
  const auto function = [](const Tensors& in) -> Tensors {
    const at::Tensor features = at::relu(at::conv2d(in[0], in[1], {}, 1, 1));
    const at::Tensor found = features.sum(1) > 4;
    const at::Tensor rows = features.permute({0, 2, 3, 1}).index({found});
    return {rows.matmul(in[2]).sum(0), rows, features};
  };
  std::vector<Tensors> calls;
  for (const double scale : {1.0, 0.0, 2.0, 0.7}) {
    calls.push_back({at::randn({2, 3, 6, 6}) * scale, at::randn({8, 3, 3, 3}), at::randn({8, 5})});
  }
  ExpectGradientsAsEager(function, calls, WithMaximum(72));
}

TEST(DataSizesTest, SizesThatDependOnDataCombineWithDynamicDimensions) {
  at::manual_seed(kSeed);
  aot::CompileOptions options = WithMaximum(30);
  options.dynamic_dims = {{.argument = 0, .dim = 0, .symbol = "n", .min = 2, .max = 30},
                          {.argument = 1, .dim = 0, .symbol = "n"}};
  const auto function = [](const Tensors& in) -> Tensors {
    const at::Tensor mask = in[1] > 0.5;
    const at::Tensor taken = in[0].index({mask}), rest = in[0].index({mask.logical_not()});
    return {at::cat({taken * 2, rest}).sum(0) / static_cast<double>(in[0].size(0)), taken, rest};
  };
  std::vector<Tensors> calls;
  for (const auto& [n, count] : {std::pair<int64_t, int64_t>{12, 5}, {12, 0}, {12, 12}, {2, 1}, {30, 29}}) {
    calls.push_back({at::randn({n, 3}, at::kDouble), Scores(n, count)});
  }
  ExpectGradientsAsEager(function, calls, options);
}

TEST(DataSizesTest, WithoutARangeOpsAreRefusedByName) {
  const auto function = [](const Tensors& in) -> Tensors { return {at::nonzero(in[0] > 0.5), at::argwhere(in[0])}; };
  aot::CompileOptions options;
  options.tracing.data_dependent_sizes.by_name = {{"argwhere", {.min = 0, .max = 9}}};
  const absl::Status status = CompiledFunction::Create(function, {Scores(10, 4)}, false, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_THAT(status.message(), HasSubstr("aten.nonzero.default"));
  EXPECT_THAT(status.message(), HasSubstr("data_dependent_sizes"));
}

TEST(DataSizesTest, AnExampleWithMoreElementsIsRefused) {
  const auto function = [](const Tensors& in) -> Tensors { return {at::nonzero(in[0] > 0.5)}; };
  const absl::Status status = CompiledFunction::Create(function, {Scores(10, 7)}, false, WithMaximum(6)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(status.message(), HasSubstr("'nonzero' has 7 elements"));
}

}  // namespace
}  // namespace cotan::testing
