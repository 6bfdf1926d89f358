// SPDX-License-Identifier: Apache-2.0

// Double backward together with the other options of a compilation: partitioners, budgets, memory limits, saved-tensor
// hooks, autocast; and of functions with complex values.
#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "aot/saved_tensor_hooks/hook_pairs.h"
#include "kernels/cpu/register_cpu.h"
#include "testing/higher_order/compiled.h"

namespace cotan::testing {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRows = 6;

at::Tensor Energy(const Tensors& in) { return at::tanh(at::sin(in[0].mm(in[1])).mm(in[2]).pow(2)).sum(1); }

Tensors EnergyInputs() { return {Leaf(1, {kRows, 5}), Leaf(2, {5, 8}), Leaf(3, {8, 4})}; }

Tensors RowSums(const Tensors& in) { return {Energy(in)}; }

// Returns both orders of the function compiled with the options.
absl::StatusOr<TwoOrders> OrdersWith(const aot::TensorFunction& function, aot::CompileOptions options,
                                     const Tensors& inputs, const Tensors& tangents) {
  options.order = 2;
  const auto model = aot::CompileFunction(function, inputs, options);
  if (!model.ok()) return model.status();
  auto compiled = Compiled::Load(*model);
  if (!compiled.ok()) return compiled.status();
  return CompiledOrders(*compiled, inputs, tangents);
}

void ExpectOrders(const TwoOrders& actual, const TwoOrders& expected, double tolerance) {
  ASSERT_EQ(actual.first.size(), expected.first.size());
  for (size_t i = 0; i < expected.first.size(); ++i) ExpectNear(actual.first[i], expected.first[i], tolerance);
  ASSERT_EQ(actual.second.size(), expected.second.size());
  for (size_t i = 0; i < expected.second.size(); ++i) ExpectNear(actual.second[i], expected.second[i], tolerance);
}

// What is saved changes no bit of either order.
TEST(OptionsOfOrdersTest, PartitionersAndBudgetsGiveTheSameBits) {
  std::vector<aot::CompileOptions> all(4);
  all[1].partitioner = aot::Partitioner::kDefault;
  all[2].activation_memory_budget = 0;
  all[3].activation_memory_budget = 0.5;
  const Tensors inputs = EnergyInputs(), tangents = {Constant(7, {kRows})};
  const TwoOrders expected = EagerOrders(RowSums, inputs, tangents);
  std::vector<TwoOrders> results;
  for (const aot::CompileOptions& options : all) {
    const auto actual = OrdersWith(RowSums, options, inputs, tangents);
    ASSERT_TRUE(actual.ok()) << actual.status();
    ExpectOrders(*actual, expected, 1e-12);
    results.push_back(*actual);
    ExpectOrders(*actual, results[0], 0);
  }
}

TEST(OptionsOfOrdersTest, MemoryLimitsGiveTheSameBitsOrAreRefused) {
  const Tensors inputs = EnergyInputs(), tangents = {Constant(7, {kRows})};
  const auto plain = OrdersWith(RowSums, {}, inputs, tangents);
  ASSERT_TRUE(plain.ok()) << plain.status();
  aot::CompileOptions options;
  options.max_memory = {.bytes = 512 << 10, .target = {.kernels = &CpuKernels(), .threads = 1}};
  absl::StatusOr<TwoOrders> limited = OrdersWith(RowSums, options, inputs, tangents);
  ASSERT_TRUE(limited.ok()) << limited.status();
  while (limited.ok()) {
    ExpectOrders(*limited, *plain, 0);
    options.max_memory->bytes = options.max_memory->bytes * 3 / 4;
    limited = OrdersWith(RowSums, options, inputs, tangents);
  }
  EXPECT_EQ(limited.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(limited.status().message(), HasSubstr("cannot be kept"));
}

// The differentiable backward computes the forward again, so that only the plain backward reads packed values.
TEST(OptionsOfOrdersTest, PackedValuesLimitThePrecisionOfGradients) {
  aot::CompileOptions options;
  options.saved_tensor_hooks = aot::BFloat16Hooks();
  options.saved_tensor_hooks.min_elements = 1;
  const Tensors inputs = EnergyInputs(), tangents = {Constant(7, {kRows})};
  const auto actual = OrdersWith(RowSums, options, inputs, tangents);
  ASSERT_TRUE(actual.ok()) << actual.status();
  ExpectOrders(*actual, EagerOrders(RowSums, inputs, tangents), 0.05);
}

// Autocast is that of the forward; gradients are computed in the dtypes of its values, in both orders.
TEST(OptionsOfOrdersTest, AutocastIsThatOfTheForward) {
  const auto product = [](const Tensors& in) -> Tensors {
    return {at::tanh(in[0].to(at::kFloat).mm(in[1].to(at::kFloat))).to(at::kDouble).pow(2).sum(1)};
  };
  const auto eager = [&](const Tensors& in) -> Tensors {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    Tensors out = product(in);
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
    return out;
  };
  aot::CompileOptions options;
  options.tracing.autocast = DType::kBFloat16;
  const Tensors inputs = {Leaf(1, {kRows, 5}), Leaf(2, {5, 8})}, tangents = {Constant(7, {kRows})};
  const auto actual = OrdersWith(product, options, inputs, tangents);
  ASSERT_TRUE(actual.ok()) << actual.status();
  ExpectOrders(*actual, EagerOrders(eager, inputs, tangents), 0.02);
}

TEST(OptionsOfOrdersTest, FunctionsMayUseComplexValues) {
  ExpectEagerOrders(
      [](const Tensors& in) -> Tensors {
        const at::Tensor z = at::complex(in[0], in[1]);
        return {at::view_as_real(z * z * z.conj()).sum(-1), at::abs(at::exp(z * 0.5))};
      },
      {Leaf(1, {4, 3}), Leaf(2, {4, 3})}, 1e-11);
}

// LibTorch has no derivative of the backward of its fused attention.
TEST(OptionsOfOrdersTest, FusedAttentionHasTwoOrders) {
  const auto fused = [](const Tensors& in) -> Tensors {
    return {at::scaled_dot_product_attention(in[0], in[1], in[2], {}, 0.0, /*is_causal=*/true)};
  };
  const auto composed = [](const Tensors& in) -> Tensors {
    const at::Tensor keep = at::ones({in[0].size(2), in[1].size(2)}, at::kBool).tril();
    const at::Tensor scores = at::matmul(in[0], in[1].mT()) / 2;
    return {at::matmul(at::softmax(scores.masked_fill(keep.logical_not(), -INFINITY), -1), in[2])};
  };
  const Tensors inputs = {Leaf(1, {2, 2, 5, 4}), Leaf(2, {2, 2, 6, 4}), Leaf(3, {2, 2, 6, 4})};
  const Tensors tangents = {Constant(7, {2, 2, 5, 4})};
  aot::CompileOptions options;
  options.tracing.attention = aot::AttentionForm::kFused;
  const auto actual = OrdersWith(fused, options, inputs, tangents);
  ASSERT_TRUE(actual.ok()) << actual.status();
  ExpectOrders(*actual, EagerOrders(composed, inputs, tangents), 1e-10);
}

}  // namespace
}  // namespace cotan::testing
