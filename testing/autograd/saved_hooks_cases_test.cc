// SPDX-License-Identifier: Apache-2.0

// Saved-tensor hooks of compiled artifacts: writes to what unpack returns, and gradients of gradients. The rows G7 of
// cases.txt that testing/e2e:saved_tensor_hooks_test does not have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <utility>
#include <vector>

#include "aot/saved_tensor_hooks/saved_tensor_hooks.h"
#include "runtime/autograd/double_backward.h"
#include "runtime/autograd/engine.h"
#include "testing/higher_order/compiled.h"

namespace cotan::testing {
namespace {

using ::testing::ElementsAre;

absl::StatusOr<Compiled> Compile(const aot::TensorFunction& function, const Tensors& examples,
                                 aot::SavedTensorHooks hooks, int order = 1) {
  aot::CompileOptions options;
  hooks.filter = aot::HookFilter::kAll;
  hooks.min_elements = 0;
  options.saved_tensor_hooks = std::move(hooks);
  options.order = order;
  const auto model = aot::CompileFunction(function, examples, options);
  if (!model.ok()) return model.status();
  return Compiled::Load(*model);
}

at::Tensor Same(const at::Tensor& x) { return x; }

// Writes to what it saved.
struct OverwritesSaved : torch::autograd::Function<OverwritesSaved> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->saved_data["x"] = x.sin();
    return x * 1;
  }
  static Tensors backward(torch::autograd::AutogradContext* context, const Tensors& tangents) {
    at::Tensor saved = context->saved_data["x"].toTensor();
    saved.mul_(3);
    return {tangents[0] * saved};
  }
};

TEST(SavedHooksCasesTest, WritesToWhatUnpackReturnsAreNotSeenByTheCaller) {
  const auto function = [](const Tensors& in) -> Tensors { return {OverwritesSaved::apply(in[0])}; };
  const auto twice = [](const at::Tensor& x) { return x * 2; };
  const auto half = [](const at::Tensor& x) { return x / 2; };
  for (const aot::SavedTensorHooks& hooks :
       {aot::MakeSavedTensorHooks(Same, Same), aot::MakeSavedTensorHooks(twice, half)}) {
    auto f = Compile(function, {Leaf(0, {4})}, hooks);
    ASSERT_TRUE(f.ok()) << f.status();
    const Variable x = ToVariable(Leaf(0, {4}));
    const Variable y = (*f)({x})[0];
    const Tensor one = ToCotan(torch::ones({4}));
    for (const bool retain : {true, false}) {
      const auto gradient = autograd::Grad({y}, {x}, {one}, f->ops(), {.retain_graph = retain});
      ASSERT_TRUE(gradient.ok()) << gradient.status();
      ExpectNear(ToTorch((*gradient)[0]), Constant(0, {4}).sin() * 3);
    }
    ExpectNear(ToTorch(x.tensor()), Constant(0, {4}));
    ExpectNear(ToTorch(y.tensor()), Constant(0, {4}));
    EXPECT_EQ(x.version(), 0u);
    EXPECT_EQ(y.version(), 0u);
  }
}

TEST(SavedHooksCasesTest, GradientsOfGradientsGoThroughHooks) {
  const auto cube = [](const Tensors& in) -> Tensors { return {in[0] * in[0] * in[0]}; };
  auto f = Compile(cube, {Leaf(0, {2})}, aot::MakeSavedTensorHooks(Same, Same), /*order=*/2);
  ASSERT_TRUE(f.ok()) << f.status();
  const Variable a = *Variable::Leaf(ToCotan(torch::tensor({2.0, -3.0}, torch::kDouble)));
  const Variable one(ToCotan(torch::ones({2})));
  const auto first = autograd::GradWithGraph({(*f)({a})[0]}, {a}, {one}, f->ops());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(*(*first)[0].tensor().ToVector<double>(), ElementsAre(12, 27));
  ASSERT_TRUE(autograd::Backward({(*first)[0]}, {one.tensor()}, f->ops()).ok());
  EXPECT_THAT(*a.grad().tensor().ToVector<double>(), ElementsAre(12, -18));
}

}  // namespace
}  // namespace cotan::testing
