// SPDX-License-Identifier: Apache-2.0

// Runs functions whose results have as many elements as the data decides, up to a size that the caller gives:
// compiled once, they are called with data of several counts and compared with LibTorch eager.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <tuple>
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

// Compiles `function` for the first inputs and compares its results for all of them.
void ExpectAsEager(const aot::TensorFunction& function, const std::vector<Tensors>& calls,
                   const aot::CompileOptions& options = {}) {
  absl::StatusOr<CompiledFunction> compiled = CompiledFunction::Create(function, calls[0], false, options);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  for (const Tensors& inputs : calls) {
    const Tensors expected = function(inputs);
    const absl::StatusOr<Tensors> results = compiled->Call(inputs);
    ASSERT_TRUE(results.ok()) << results.status();
    ASSERT_EQ(results->size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ((*results)[i].sizes(), expected[i].sizes());
      EXPECT_TRUE(at::equal((*results)[i], expected[i])) << (*results)[i] << "\ninstead of\n" << expected[i];
    }
  }
}

TEST(NonzeroStaticTest, ReturnsTheFirstElementsAndFillsTheRest) {
  for (const int64_t size : {0, 1, 4, 30}) {
    const auto function = [=](const Tensors& in) -> Tensors { return {at::nonzero_static(in[0], size, /*fill=*/-7)}; };
    const at::Tensor some = at::zeros({2, 3, 4});
    some[0][1][2] = 1;
    some[1][0][3] = -2;
    some[1][2][3] = NAN;
    ExpectAsEager(function, {{some}, {at::zeros({2, 3, 4})}, {at::ones({2, 3, 4})}});
    ExpectAsEager(function, {{Longs({0, 5, 0, 0, -1})}, {Longs({1, 1, 1, 1, 1})}});
    ExpectAsEager(function, {{some.select(0, 1) != 0}});
    ExpectAsEager(function, {{at::zeros({3, 0})}});
  }
}

TEST(NonzeroStaticTest, HoldsAtDynamicSizes) {
  aot::CompileOptions options;
  options.dynamic_dims = {{.argument = 0, .dim = 0, .symbol = "n", .min = 2, .max = 20}};
  const auto function = [](const Tensors& in) -> Tensors { return {at::nonzero_static(in[0] > 0, in[0].size(0))}; };
  at::manual_seed(kSeed);
  ExpectAsEager(function, {{at::randn({7, 3})}, {at::randn({2, 3})}, {at::randn({20, 3})}}, options);
}

// A detection head: the boxes above a score, at most four, and how many there are.
TEST(NonzeroStaticTest, ADetectionHeadReturnsBoxesAndTheirCount) {
  const auto function = [](const Tensors& in) -> Tensors {
    const at::Tensor found = in[1] > 0.5;
    const at::Tensor rows = at::nonzero_static(found, 4, /*fill_value=*/0).squeeze(1);
    return {in[0].index_select(0, rows), in[1].index_select(0, rows), found.sum().clamp_max(4)};
  };
  const at::Tensor boxes = at::arange(24).reshape({6, 4}).to(at::kFloat);
  ExpectAsEager(
      function,
      {{boxes, at::tensor({0.9F, 0.1F, 0.6F, 0.2F, 0.3F, 0.7F})}, {boxes, at::zeros({6})}, {boxes, at::ones({6})}});
}

// The distinct values of a tensor, at most five, as at::_unique2() sorts them.
TEST(NonzeroStaticTest, DistinctValuesAreTheStartsOfRunsOfTheSortedOnes) {
  const auto function = [](const Tensors& in) -> Tensors {
    const at::Tensor sorted = std::get<0>(in[0].sort());
    const at::Tensor is_new = at::cat({at::ones({1}, at::kBool), sorted.slice(0, 1).ne(sorted.slice(0, 0, -1))});
    const at::Tensor starts = at::nonzero_static(is_new, 5, /*fill_value=*/0).squeeze(1);
    return {sorted.index_select(0, starts), is_new.sum()};
  };
  const std::vector<Tensors> calls = {{Longs({3, 1, 3, 2, 1, 3})}, {Longs({4, 4, 4, 4, 4, 4})}};
  ExpectAsEager(function, calls);
  for (const Tensors& call : calls) {
    const Tensors result = function(call);
    const at::Tensor expected = std::get<0>(at::_unique2(call[0]));
    EXPECT_TRUE(at::equal(result[0].slice(0, 0, result[1].item<int64_t>()), expected));
  }
}

// A router: each expert takes the tokens that prefer it, at most three; the others pass unchanged. Places without a
// token read and write a further row.
Tensors Route(const Tensors& in) {
  const at::Tensor &x = in[0], &gate = in[1], &experts = in[2];
  const int64_t tokens = x.size(0);
  const at::Tensor padding = at::zeros({1, x.size(1)}, x.options());
  const at::Tensor padded = at::cat({x, padding});
  const at::Tensor shares = padded.matmul(gate).softmax(1);
  const at::Tensor best = shares.argmax(1);
  at::Tensor result = padded;
  for (int64_t e = 0; e < experts.size(0); ++e) {
    const at::Tensor mine = best.slice(0, 0, tokens).eq(e);
    const at::Tensor rows = at::nonzero_static(mine, 3, /*fill_value=*/tokens).squeeze(1);
    const at::Tensor computed = padded.index_select(0, rows).matmul(experts[e]).tanh();
    result = result.index_add(0, rows, computed * shares.index_select(0, rows).select(1, e).unsqueeze(1));
  }
  return {result.slice(0, 0, tokens)};
}

TEST(NonzeroStaticTest, ARouterOfExpertsHasEagersGradients) {
  at::manual_seed(kSeed);
  const Tensors inputs = {at::randn({8, 4}, at::kDouble), at::randn({4, 3}, at::kDouble),
                          at::randn({3, 4, 4}, at::kDouble)};
  aot::CompileOptions options;
  options.dynamic_dims = {{.argument = 0, .dim = 0, .symbol = "tokens", .min = 2, .max = 32}};
  absl::StatusOr<CompiledFunction> compiled = CompiledFunction::Create(Route, inputs, true, options);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  for (const int64_t tokens : {8, 2, 31}) {
    const Tensors call = {at::randn({tokens, 4}, at::kDouble), inputs[1], inputs[2]};
    const at::Tensor tangent = at::randn({tokens, 4}, at::kDouble);
    const Tensors leaves = Leaves(call, true);
    const at::Tensor expected = Route(leaves)[0];
    expected.backward(tangent);
    const absl::StatusOr<Tensors> results = compiled->Call(call);
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_LE(ErrorOf((*results)[0], expected.detach()), kMatmul);
    const absl::StatusOr<Tensors> gradients = compiled->Gradients(call, {true}, {tangent});
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    for (size_t i = 0; i < leaves.size(); ++i) {
      EXPECT_LE(ErrorOf((*gradients)[i], leaves[i].grad()), kModelGradient);
    }
  }
}

Tensors Repeat(const Tensors& in) { return {at::repeat_interleave(in[0], in[1], /*dim=*/0, /*output_size=*/6)}; }

TEST(RepeatInterleaveTest, RepeatsRowsUpToTheGivenSize) {
  const at::Tensor x = at::arange(8).reshape({4, 2}).to(at::kFloat);
  ExpectAsEager(Repeat, {{x, Longs({1, 2, 0, 3})}, {x, Longs({0, 0, 0, 6})}, {x, Longs({6, 0, 0, 0})}});
}

TEST(RepeatInterleaveTest, ACallWithAnotherSumFails) {
  const at::Tensor x = at::arange(8).reshape({4, 2}).to(at::kFloat);
  absl::StatusOr<CompiledFunction> compiled = CompiledFunction::Create(Repeat, {x, Longs({1, 2, 0, 3})}, false);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  for (const at::Tensor& repeats : {Longs({1, 2, 0, 2}), Longs({6, 6, 6, 6}), Longs({-1, 2, 2, 3})}) {
    EXPECT_THROW(Repeat({x, repeats}), c10::Error);
    const absl::StatusOr<Tensors> results = compiled->Call({x, repeats});
    EXPECT_EQ(results.status().code(), absl::StatusCode::kInvalidArgument) << results.status();
    EXPECT_THAT(results.status().message(), HasSubstr("repeat_interleave"));
  }
}

}  // namespace
}  // namespace cotan::testing
