// SPDX-License-Identifier: Apache-2.0

// Gradients of a result of a compiled function with respect to another result of the same call (#132929): refused where
// the function computes the one from the other, and eager's where it does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "runtime/autograd/double_backward.h"
#include "runtime/autograd/engine.h"
#include "runtime/compiled_autograd/compiled_autograd.h"
#include "testing/higher_order/compiled.h"

namespace cotan::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Compiled CompileOf(const aot::TensorFunction& function, int order = 1) {
  absl::StatusOr<Compiled> compiled = Compiled::Function(function, {Leaf(0, {1})}, order);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *std::move(compiled);
}

Variable LeafOf(double value) { return *Variable::Leaf(ToCotan(torch::full({1}, value, torch::kDouble))); }
Tensor One() { return ToCotan(torch::ones({1}, torch::kDouble)); }
std::vector<double> Values(const Tensor& tensor) { return *tensor.ToVector<double>(); }

void ExpectRefused(const absl::Status& status, const std::string& result, const std::string& source) {
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_THAT(status.message(), HasSubstr("'forward' computes " + result + " from " + source));
}

// Returns 2x and its square.
Tensors Square(const Tensors& in) {
  const at::Tensor h = in[0] * 2;
  return {h, h * h};
}

TEST(ResultDependenciesTest, AGradientWithRespectToAResultThatAnotherOneIsComputedFromIsRefused) {
  Compiled f = CompileOf(Square);
  const Variable x = LeafOf(3);
  const Variables results = f({x});
  for (const bool allow_unused : {false, true}) {
    const autograd::GradOptions options = {.retain_graph = true, .allow_unused = allow_unused};
    ExpectRefused(autograd::Grad({results[1]}, {results[0]}, {One()}, f.ops(), options).status(), "output 1",
                  "output 0");
    ExpectRefused(autograd::Grad({results[0], results[1]}, {x, results[0]}, {One(), One()}, f.ops(), options).status(),
                  "output 1", "output 0");
  }
  const autograd::BackwardOptions into_result = {.retain_graph = true, .inputs = Variables{results[0]}};
  ExpectRefused(autograd::Backward({results[1]}, {One()}, f.ops(), into_result), "output 1", "output 0");
}

TEST(ResultDependenciesTest, NodesBehindTheCallAndCapturedBackwardsAreRefusedAsWell) {
  Compiled f = CompileOf(Square), g = CompileOf(Square);
  const Variables results = f({LeafOf(3)});
  const Variable behind = g({results[1]})[0];
  const CompiledAutograd captured;
  ExpectRefused(autograd::Grad({behind}, {results[0]}, {One()}, f.ops(), {.allow_unused = true}).status(), "output 1",
                "output 0");
}

TEST(ResultDependenciesTest, ARecordedBackwardRefusesIt) {
  Compiled f = CompileOf(Square, /*order=*/2);
  const Variables results = f({LeafOf(3)});
  const auto gradient =
      autograd::GradWithGraph({results[1]}, {results[0]}, {Variable(One())}, f.ops(), /*allow_unused=*/true);
  ExpectRefused(gradient.status(), "output 1", "output 0");
}

TEST(ResultDependenciesTest, WhatTheCallerComputesFromAResultHasItsGradient) {
  Compiled f = CompileOf(Square), g = CompileOf(Square);
  const Variables results = f({LeafOf(3)});
  const Variable y = g({results[0]})[1];  // (2h)^2 with h = 6
  const auto gradient = autograd::Grad({y}, {results[0]}, {One()}, f.ops());
  ASSERT_TRUE(gradient.ok()) << gradient.status();
  EXPECT_THAT(Values((*gradient)[0]), ElementsAre(48));
}

TEST(ResultDependenciesTest, TheEarlierResultHasNoGradientWithRespectToTheLaterOne) {
  Compiled f = CompileOf(Square);
  const Variables results = f({LeafOf(3)});
  const auto gradient = autograd::Grad({results[0]}, {results[1]}, {One()}, f.ops(), {.allow_unused = true});
  ASSERT_TRUE(gradient.ok()) << gradient.status();
  EXPECT_FALSE((*gradient)[0].defined());
}

// The second result computes the same product once more, which is another value for autograd.
TEST(ResultDependenciesTest, ResultsThatAreComputedFromArgumentsAloneAreIndependentAsInEager) {
  const auto function = [](const Tensors& in) -> Tensors { return {in[0] * 2, (in[0] * 2) * (in[0] * 2)}; };
  Compiled f = CompileOf(function);
  const Variables results = f({LeafOf(3)});
  const auto gradient = autograd::Grad({results[1]}, {results[0]}, {One()}, f.ops(), {.allow_unused = true});
  ASSERT_TRUE(gradient.ok()) << gradient.status();
  EXPECT_FALSE((*gradient)[0].defined());

  const Tensors eager = function({torch::full({1}, 3.0, torch::kDouble).requires_grad_()});
  EXPECT_FALSE(torch::autograd::grad({eager[1]}, {eager[0]}, {}, false, false, /*allow_unused=*/true)[0].defined());
}

}  // namespace
}  // namespace cotan::testing
