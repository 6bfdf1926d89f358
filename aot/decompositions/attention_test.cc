// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/attention.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "aot/aotautograd/tracer.h"
#include "aot/capture/autocast.h"
#include "aot/capture/tensor_data.h"
#include "aot/ir/text.h"

namespace cotan::aot {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Tensors = std::vector<at::Tensor>;
using Backward = TraceOptions::Backward;

constexpr char kFusedOp[] = "aten._scaled_dot_product_flash_attention_for_cpu.default";
constexpr char kFusedBackwardOp[] = "aten._scaled_dot_product_flash_attention_for_cpu_backward.default";

TraceOptions Options(AttentionForm form, Backward backward = Backward::kNone) {
  TraceOptions options;
  options.backward = backward;
  options.attention.form = form;
  return options;
}

struct Case {
  std::string name;
  Tensors inputs;
  std::function<at::Tensor(const Tensors&)> function;
};

std::function<at::Tensor(const Tensors&)> Attend(const std::optional<at::Tensor>& mask = {}, bool causal = false,
                                                 std::optional<double> scale = {}, double dropout = 0,
                                                 bool shared_heads = false) {
  return [=](const Tensors& in) {
    return at::scaled_dot_product_attention(in[0], in[1], in[2], mask, dropout, causal, scale, shared_heads);
  };
}

Tensors Operands(at::IntArrayRef q = {2, 4, 5, 8}, at::IntArrayRef kv = {2, 4, 7, 8}) {
  return {at::rand(q), at::rand(kv), at::rand(kv)};
}

std::string GraphOf(const Case& c, const TraceOptions& options) {
  const auto traced = Trace([&](const Tensors& in) -> Tensors { return {c.function(in)}; }, {}, c.inputs, options);
  EXPECT_TRUE(traced.ok()) << c.name << ": " << traced.status();
  return traced.ok() ? PrintGraph(traced->graph) : "";
}

TEST(AttentionTest, FusedEqualsEager) {
  at::Tensor keep = at::rand({2, 1, 5, 7}) > 0.3;
  keep.select(-1, 0).fill_(true);
  const std::vector<Case> cases = {
      {"plain", Operands(), Attend()},
      {"causal", Operands(), Attend({}, true)},
      {"more queries than keys", Operands({1, 2, 9, 4}, {1, 2, 3, 4}), Attend({}, true)},
      {"scale", Operands(), Attend({}, false, 0.25)},
      {"additive mask", Operands(), Attend(at::randn({5, 7}))},
      {"bool mask", Operands(), Attend(keep)},
      {"shared heads", Operands({2, 6, 5, 4}, {2, 2, 5, 4}), Attend({}, false, {}, 0, true)},
      {"heads inside",
       {at::rand({2, 5, 4, 8}).transpose(1, 2), at::rand({2, 7, 4, 8}).transpose(1, 2), at::rand({2, 4, 7, 8})},
       Attend()},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const auto function = [&](const Tensors& in) -> Tensors { return {c.function(in)}; };
    const auto traced = Trace(function, {}, c.inputs, Options(AttentionForm::kFused));
    ASSERT_TRUE(traced.ok()) << traced.status();
    EXPECT_THAT(PrintGraph(traced->graph), HasSubstr(kFusedOp));
    const at::Tensor actual = FromTensorData(traced->reference.outputs[0]);
    EXPECT_TRUE(at::allclose(actual, c.function(c.inputs), 1e-5, 1e-6));
    EXPECT_THAT(GraphOf(c, Options(AttentionForm::kComposed)), Not(HasSubstr(kFusedOp)));
  }
}

TEST(AttentionTest, OperandsThatTheFusedOpDoesNotTakeStayComposed) {
  const at::Tensor wanted = at::randn({5, 7}).requires_grad_(true);
  const std::vector<Case> cases = {
      {"dropout", Operands(), Attend({}, false, {}, 0.5)},
      {"rank 3", Operands({4, 5, 8}, {4, 7, 8}), Attend()},
      {"wider values", {at::rand({2, 4, 5, 8}), at::rand({2, 4, 7, 8}), at::rand({2, 4, 7, 6})}, Attend()},
      {"columns apart", {at::rand({2, 4, 8, 5}).mT(), at::rand({2, 4, 7, 8}), at::rand({2, 4, 7, 8})}, Attend()},
      {"no keys", Operands({2, 4, 5, 8}, {2, 4, 0, 8}), Attend()},
      {"mask of rank 3", Operands(), Attend(at::randn({4, 5, 7}))},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(GraphOf(c, Options(AttentionForm::kFused)), Not(HasSubstr(kFusedOp))) << c.name;
  }
  const Case learned = {"learned mask",
                        {at::rand({2, 4, 5, 8}), at::rand({2, 4, 7, 8}), at::rand({2, 4, 7, 8}), wanted},
                        [](const Tensors& in) { return at::scaled_dot_product_attention(in[0], in[1], in[2], in[3]); }};
  EXPECT_THAT(GraphOf(learned, Options(AttentionForm::kFused, Backward::kOutputs)), Not(HasSubstr(kFusedOp)));
}

TEST(AttentionTest, BackwardIsOneOpToo) {
  for (const bool causal : {false, true}) {
    Tensors inputs = Operands();
    for (at::Tensor& input : inputs) input.requires_grad_(true);
    const auto function = [&](const Tensors& in) -> Tensors { return {(Attend({}, causal)(in) * in[0]).sum()}; };
    TraceOptions options = Options(AttentionForm::kFused, Backward::kLoss);
    const auto traced = Trace(function, {}, inputs, options);
    ASSERT_TRUE(traced.ok()) << traced.status();
    EXPECT_THAT(PrintGraph(traced->graph), HasSubstr(kFusedBackwardOp));
    const Tensors expected = torch::autograd::grad({function(inputs)[0]}, inputs);
    ASSERT_EQ(traced->reference.gradients.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(at::allclose(FromTensorData(traced->reference.gradients[i]), expected[i], 1e-4, 1e-5)) << i;
    }
  }
}

// The fused backward has no derivative in LibTorch.
TEST(AttentionTest, ABackwardThatIsDifferentiatedComputesTheComposedForm) {
  Tensors inputs = Operands({1, 2, 3, 4}, {1, 2, 3, 4});
  for (at::Tensor& input : inputs) input.requires_grad_(true);
  const auto slope = [](const Tensors& in, const auto& attend) {
    const at::Tensor y = attend(in);
    const at::Tensor g = torch::autograd::grad({(y * y).sum()}, {in[0]}, {}, true, /*create_graph=*/true)[0];
    return (g * g).sum();
  };
  const auto traced = Trace([&](const Tensors& in) -> Tensors { return {slope(in, Attend({}, true))}; }, {}, inputs,
                            Options(AttentionForm::kFused, Backward::kLoss));
  ASSERT_TRUE(traced.ok()) << traced.status();
  EXPECT_THAT(PrintGraph(traced->graph), HasSubstr(kFusedOp));
  const auto composed = [](const Tensors& in) {
    const at::Tensor keep = at::ones({3, 3}, at::kBool).tril();
    const at::Tensor scores = at::matmul(in[0], in[1].mT()) / 2;
    return at::matmul(at::softmax(scores.masked_fill(keep.logical_not(), -INFINITY), -1), in[2]);
  };
  const Tensors expected = torch::autograd::grad({slope(inputs, composed)}, inputs);
  ASSERT_EQ(traced->reference.gradients.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(at::allclose(FromTensorData(traced->reference.gradients[i]), expected[i], 1e-4, 1e-5)) << i;
  }
}

TEST(AttentionTest, AutocastConvertsTheOperands) {
  const Case c = {"autocast", Operands(), Attend({}, true)};
  TraceOptions options = Options(AttentionForm::kFused);
  options.autocast = DType::kBFloat16;
  const auto traced = Trace([&](const Tensors& in) -> Tensors { return {c.function(in)}; }, {}, c.inputs, options);
  ASSERT_TRUE(traced.ok()) << traced.status();
  EXPECT_THAT(PrintGraph(traced->graph), HasSubstr(kFusedOp));
  const at::Tensor actual = FromTensorData(traced->reference.outputs[0]);
  const AutocastScope autocast(DType::kBFloat16);
  const at::Tensor expected = c.function(c.inputs);
  EXPECT_EQ(actual.scalar_type(), at::kBFloat16);
  EXPECT_EQ(expected.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::allclose(actual, expected));
}

AttentionOperands OfShape(at::ScalarType dtype, int64_t keys, int64_t row, bool has_mask = false) {
  AttentionOperands operands;
  operands.q = at::empty({1, 1, keys, row}, dtype);
  operands.k = operands.v = at::empty({1, 1, keys, row}, dtype);
  if (has_mask) operands.mask = at::empty({keys, keys}, dtype);
  return operands;
}

AttentionOperands Causal(AttentionOperands operands) {
  operands.is_causal = true;
  return operands;
}

TEST(AttentionTest, AutoFusesWhatIsFasterOnCuda) {
  const AttentionRule cuda = {.form = AttentionForm::kAuto, .for_cuda = true};
  EXPECT_TRUE(IsFused(cuda, OfShape(at::kFloat, 64, 32)));
  EXPECT_TRUE(IsFused(cuda, OfShape(at::kFloat, 128, 5, /*has_mask=*/true)));
  EXPECT_TRUE(IsFused(cuda, OfShape(at::kBFloat16, 128, 64)));
  EXPECT_FALSE(IsFused(cuda, OfShape(at::kFloat, 63, 32)));
  EXPECT_FALSE(IsFused(cuda, OfShape(at::kBFloat16, 127, 64)));
  EXPECT_FALSE(IsFused(cuda, OfShape(at::kFloat, 128, 129)));
  EXPECT_FALSE(IsFused(cuda, OfShape(at::kDouble, 128, 32)));
  EXPECT_FALSE(IsFused(cuda, OfShape(at::kHalf, 128, 20)));
  EXPECT_FALSE(IsFused(cuda, OfShape(at::kHalf, 128, 64, /*has_mask=*/true)));
}

TEST(AttentionTest, AutoFusesAtAnySizeForCudaIfSizesVary) {
  const AttentionRule varying = {.form = AttentionForm::kAuto, .for_cuda = true, .sizes_vary = true};
  EXPECT_TRUE(IsFused(varying, OfShape(at::kFloat, 3, 32)));
  EXPECT_TRUE(IsFused(varying, OfShape(at::kHalf, 3, 32)));
}

TEST(AttentionTest, AutoFusesLongAttentionOnTheCpu) {
  const AttentionRule cpu = {.form = AttentionForm::kAuto};
  EXPECT_TRUE(IsFused(cpu, Causal(OfShape(at::kFloat, 32, 32))));
  EXPECT_TRUE(IsFused(cpu, Causal(OfShape(at::kBFloat16, 192, 32))));
  EXPECT_TRUE(IsFused(cpu, OfShape(at::kFloat, 512, 32)));
  EXPECT_FALSE(IsFused(cpu, Causal(OfShape(at::kFloat, 31, 32))));
  EXPECT_FALSE(IsFused(cpu, Causal(OfShape(at::kBFloat16, 191, 32))));
  EXPECT_FALSE(IsFused(cpu, OfShape(at::kFloat, 511, 32)));
  EXPECT_FALSE(IsFused(cpu, OfShape(at::kFloat, 512, 32, /*has_mask=*/true)));
  EXPECT_FALSE(IsFused(cpu, OfShape(at::kBFloat16, 1024, 32)));
  AttentionOperands one_query = OfShape(at::kFloat, 1024, 32);
  one_query.q = one_query.q.slice(2, 0, 1);
  EXPECT_FALSE(IsFused(cpu, one_query));
  EXPECT_FALSE(IsFused({.form = AttentionForm::kAuto, .sizes_vary = true}, Causal(OfShape(at::kFloat, 1024, 32))));
}

TEST(AttentionTest, GivenFormsDoNotDependOnTheTarget) {
  for (const bool for_cuda : {false, true}) {
    EXPECT_TRUE(IsFused({.form = AttentionForm::kFused, .for_cuda = for_cuda}, OfShape(at::kDouble, 3, 200)));
    EXPECT_FALSE(IsFused({.form = AttentionForm::kComposed, .for_cuda = for_cuda}, OfShape(at::kFloat, 512, 32)));
  }
}

}  // namespace
}  // namespace cotan::aot
