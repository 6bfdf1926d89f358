// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/core/differentiable_backward.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/autograd/double_backward.h"
#include "runtime/testing/loaded_function.h"

namespace cotan {
namespace {

using testing::At;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Leaf;
using testing::LoadedFunction;
using testing::SquareOfOrderTwo;
using testing::Values;
using testing::Vector;

TEST(DifferentiableBackwardTest, GradientsHaveHistory) {
  LoadedFunction program(SquareOfOrderTwo());
  const Variable x = Leaf({3, 4}), tangent = Leaf({1, 2});
  const auto gradients = autograd::GradWithGraph({At(program.Call({x}), 0)}, {x}, {tangent}, program.session.ops());
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  EXPECT_THAT(Values((*gradients)[0]), ElementsAre(6, 16));
  const auto second = autograd::Grad(*gradients, {x, tangent}, {Vector({1, 1})}, program.session.ops());
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_THAT(*(*second)[0].ToVector<float>(), ElementsAre(2, 4));
  EXPECT_THAT(*(*second)[1].ToVector<float>(), ElementsAre(6, 8));
}

// The constant tangent of the first backward gets no gradient in the second.
TEST(DifferentiableBackwardTest, ConstantTangentsAreDropped) {
  LoadedFunction program(SquareOfOrderTwo());
  const Variable x = Leaf({3, 4});
  const Variable tangent(Vector({1, 1}));
  const auto gradients = autograd::GradWithGraph({At(program.Call({x}), 0)}, {x}, {tangent}, program.session.ops());
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  EXPECT_TRUE((*gradients)[0].requires_grad());
  ASSERT_TRUE(program.Backward((*gradients)[0], {1, 1}).ok());
  EXPECT_THAT(Values(x.grad()), ElementsAre(2, 2));
  EXPECT_FALSE(tangent.requires_grad());
}

TEST(DifferentiableBackwardTest, PrimalsKeepTheirPlaceInTheGraph) {
  LoadedFunction program(SquareOfOrderTwo());
  const Variable x = Leaf({3, 4});
  Variable y = At(program.Call({x}), 0);        // x^2
  const Variable z = At(program.Call({y}), 0);  // x^4
  ASSERT_TRUE(y.DetachInPlace().ok());          // the handle leaves the graph, the call's argument does not
  const auto gradients = autograd::GradWithGraph({z}, {x}, {Variable(Vector({1, 1}))}, program.session.ops());
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  EXPECT_THAT(Values((*gradients)[0]), ElementsAre(4 * 27, 4 * 64));
  const auto second = autograd::Grad(*gradients, {x}, {Vector({1, 1})}, program.session.ops());
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_THAT(*(*second)[0].ToVector<float>(), ElementsAre(12 * 9, 12 * 16));
}

TEST(DifferentiableBackwardTest, WrittenPrimalsAreRefused) {
  LoadedFunction program(SquareOfOrderTwo());
  Variable x = Leaf({3, 4});
  const auto results = program.Call({x});
  x.BumpVersion();
  const auto refused =
      autograd::GradWithGraph({At(results, 0)}, {x}, {Variable(Vector({1, 1}))}, program.session.ops());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.status().message(), HasSubstr("argument 0, f32[2], is at version 1; expected version 0"));
}

}  // namespace
}  // namespace cotan
