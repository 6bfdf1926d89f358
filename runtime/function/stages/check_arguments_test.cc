// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/check_arguments.h"

#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/testing/loaded_function.h"

namespace cotan {
namespace {

using testing::At;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Leaf;
using testing::LoadedFunction;
using testing::ProgramBuilder;
using testing::Square;
using testing::TwoParts;
using testing::Values;
using testing::Vector;

TEST(CheckArgumentsTest, ArgumentsMustBeAsTraced) {
  LoadedFunction program(Square());
  EXPECT_THAT(program.f.Call({Variable(Vector({3, 4}))}).status().message(),
              HasSubstr("argument 'x' required grad when the program was traced, but the one given does not"));
  EXPECT_THAT(program.f.Call({}).status().message(), HasSubstr("takes 1 arguments (x), got 0"));
  EXPECT_THAT(program.f.Call({Variable()}).status().message(), HasSubstr("is undefined"));
  EXPECT_THAT(program.f.Call({Leaf({1, 2, 3})}).status().message(), HasSubstr("expected f32[2], got f32[3]"));
}

TEST(CheckArgumentsTest, WhatNoGradientWentThroughMustNotHaveOne) {
  ProgramBuilder builder = TwoParts();
  builder.artifact().mutable_methods(0)->add_no_grad_view_inputs(1);
  LoadedFunction program(std::move(builder));
  const Variable leaf = Leaf({1, 2});
  Variable view;
  {
    const GradModeGuard no_grad(false);
    view = *leaf.View({});
  }
  EXPECT_THAT(Values(At(program.Call({Leaf({1, 2}), view}), 1)), ElementsAre(3, 6));
  EXPECT_THAT(
      program.f.Call({Leaf({1, 2}), leaf}).status().message(),
      HasSubstr("was a view made under no_grad when the program was traced, so that no gradient flows through it"));
}

}  // namespace
}  // namespace cotan
