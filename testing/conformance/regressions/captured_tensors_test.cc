// SPDX-License-Identifier: Apache-2.0

// Tensors that a function uses without being given them, and gradients that it writes where no result shows them.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "aot/blocks/block.h"
#include "aot/compile.h"
#include "testing/conformance/regressions/eager_cases.h"

namespace cotan::conformance {
namespace {

using ::testing::HasSubstr;

absl::Status StatusOf(const std::function<Tensors(Tensors)>& f, const Tensors& inputs) {
  return aot::CompileFunction(f, inputs, {}).status();
}

// Eager mode gives the leaf a gradient. A constant of the program has none.
TEST(CapturedTensorsTest, ALeafThatRequiresGradIsRefused) {
  const at::Tensor weight = at::ones({3}).requires_grad_();
  const auto scaled = [weight](Tensors in) -> Tensors { return {in[0] * weight}; };
  for (const at::Tensor& x : {at::ones({3}), at::ones({3}).requires_grad_()}) {
    const absl::Status refused = StatusOf(scaled, {x});
    EXPECT_FALSE(refused.ok());
    EXPECT_THAT(std::string(refused.message()), HasSubstr("requires grad"));
  }
}

TEST(CapturedTensorsTest, AComputedOneThatRequiresGradIsRefused) {
  const at::Tensor weight = at::ones({3}).requires_grad_() * 2;
  const absl::Status refused = StatusOf([weight](Tensors in) -> Tensors { return {in[0] * weight}; }, {at::ones({3})});
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.message()), HasSubstr("requires grad"));
}

TEST(CapturedTensorsTest, ALeafIsAConstantWhereItHasNoGradient) {
  const at::Tensor weight = at::ones({3}).requires_grad_();
  const Tensors inputs = {at::ones({3}).requires_grad_()};
  const auto detached = [weight](Tensors in) -> Tensors { return {in[0] * weight.detach()}; };
  const absl::Status compiled = StatusOf(detached, inputs);
  EXPECT_TRUE(compiled.ok()) << compiled;
  const auto without_grad = [weight](Tensors in) -> Tensors {
    const at::NoGradGuard guard;
    return {in[0] * weight};
  };
  const absl::Status under_no_grad = StatusOf(without_grad, inputs);
  EXPECT_TRUE(under_no_grad.ok()) << under_no_grad;
}

// backward() writes grad() of the caller's tensors, which a program does not have.
TEST(CapturedTensorsTest, BackwardInsideOfAFunctionIsRefused) {
  const auto function = [](Tensors in) -> Tensors {
    (in[0] * in[0]).sum().backward();
    return {in[0] * 2};
  };
  const absl::Status refused = StatusOf(function, {at::ones({3}).requires_grad_()});
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.message()), HasSubstr("backward()"));
}

TEST(CapturedTensorsTest, TheFreeFunctionBackwardIsRefusedAsWell) {
  const auto function = [](Tensors in) -> Tensors {
    torch::autograd::backward({(in[1] * in[1]).sum()}, {});
    return {in[0] * in[1]};
  };
  const Tensors inputs = {at::ones({3}), at::ones({3}).requires_grad_() * 2};
  EXPECT_THAT(std::string(StatusOf(function, inputs).message()), HasSubstr("grad() of 'input.1'"));
}

TEST(CapturedTensorsTest, AFunctionThatSetsTheGradOfAnArgumentIsRefused) {
  const auto function = [](Tensors in) -> Tensors {
    in[0].mutable_grad() = in[0].detach() * 2;
    return {in[0] * 2};
  };
  const absl::Status refused = StatusOf(function, {at::ones({3}).requires_grad_()});
  EXPECT_THAT(std::string(refused.message()), HasSubstr("or sets it (mutable_grad())"));
}

TEST(CapturedTensorsTest, BackwardOfADetachedCopyIsCompiled) {
  const auto function = [](Tensors in) -> Tensors {
    const at::Tensor x = in[0].detach().requires_grad_();
    (x * x * x).sum().backward();
    return {in[0] * x.grad()};
  };
  const absl::Status compiled = StatusOf(function, {at::ones({3}).requires_grad_()});
  EXPECT_TRUE(compiled.ok()) << compiled;
}

TEST(CapturedTensorsTest, ALeafWhoseGradientIsNotThatOfAResultIsAConstant) {
  const at::Tensor weight = at::ones({3}).requires_grad_();
  const auto function = [weight](Tensors in) -> Tensors {
    return {in[0] * (in[0] > weight), (in[0] * weight).detach()};
  };
  const absl::Status compiled = StatusOf(function, {at::ones({3}).requires_grad_()});
  EXPECT_TRUE(compiled.ok()) << compiled;
}

TEST(CapturedTensorsTest, ALeafThatABlockIsGivenIsRefused) {
  const at::Tensor weight = at::ones({3}).requires_grad_();
  const auto function = [weight](Tensors in) -> Tensors {
    const auto scale = [](at::Tensor x, at::Tensor w) { return (x * w).sin(); };
    return {COTAN_BLOCK(scale, COTAN_BLOCK(scale, in[0], weight), weight)};
  };
  const absl::Status refused = StatusOf(function, {at::ones({3}).requires_grad_()});
  EXPECT_THAT(std::string(refused.message()), HasSubstr("requires grad"));
}

// A tensor without a place in the program cannot get what is computed in it.
TEST(CapturedTensorsTest, WritesOfArgumentsToCopiesOfCapturedTensorsAreRefused) {
  const at::Tensor table = at::ones({3});
  const auto function = [table](Tensors in) -> Tensors { return {table.clone().add_(in[0])}; };
  EXPECT_THAT(std::string(StatusOf(function, {at::ones({3})}).message()),
              HasSubstr("computed from captured tensors alone"));
}

}  // namespace
}  // namespace cotan::conformance
