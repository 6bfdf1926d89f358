// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/retained_grads.h"

#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/testing/loaded_function.h"

namespace cotan {
namespace {

using testing::At;
using testing::Copy;
using ::testing::ElementsAre;
using testing::Fresh;
using ::testing::HasSubstr;
using testing::Leaf;
using testing::LoadedFunction;
using testing::MethodBuilder;
using testing::NonLeafInput;
using testing::ProgramBuilder;
using testing::Times;
using testing::Values;

// y = 2 x; x.retain_grad(); y.retain_grad()
LoadedFunction Twice() {
  ProgramBuilder builder;
  MethodBuilder f = builder.AddMethod("f");
  f.proto().add_outputs(Times(f, f.Input("x", DType::kFloat32, {"2"}), 2.0));
  MethodBuilder b = builder.AddMethod("b");
  b.proto().add_outputs(Times(b, b.Input("tangent", DType::kFloat32, {"2"}), 2.0));
  Pair(f, b, 0, {0});
  ViewAndMutationMetaFields facts;
  facts.is_train = true;
  facts.input_info = {NonLeafInput()};
  facts.output_info = {Fresh(true)};
  facts.input_info[0].retains_grad = facts.output_info[0].retains_grad = true;
  SetMetadata(f, facts);
  return LoadedFunction(std::move(builder));
}

TEST(RetainedGradsTest, TheVariablesOfTheCallerKeepTheirWholeGradient) {
  LoadedFunction program = Twice();
  EXPECT_THAT(program.f.ToString(), HasSubstr("retain      x, output 0"));
  const Variable x = Copy(program, Leaf({1, 2}));
  const Variable once = At(program.Call({x}), 0), again = At(program.Call({x}), 0);
  ASSERT_TRUE(
      autograd::Backward({once, again}, {testing::Vector({1, 1}), testing::Vector({10, 10})}, program.session.ops())
          .ok());
  EXPECT_THAT(Values(once.grad()), ElementsAre(1, 1));
  EXPECT_THAT(Values(again.grad()), ElementsAre(10, 10));
  EXPECT_THAT(Values(x.grad()), ElementsAre(22, 22));
}

TEST(RetainedGradsTest, AResultWithoutGradientRetainsNone) {
  LoadedFunction program = Twice();
  const Variable x = Copy(program, Leaf({1, 2}));
  const GradModeGuard no_grad(false);
  EXPECT_FALSE(At(program.Call({x}), 0).requires_grad());
}

}  // namespace
}  // namespace cotan
