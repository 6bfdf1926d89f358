// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/call_plan_text.h"

#include "gtest/gtest.h"

namespace cotan {
namespace {

// The plan of f(x, y, z), where x and y are views of a base.
CallPlan Plan() {
  CallPlan plan;
  plan.inputs = {{.name = "x"}, {.name = "y"}, {.name = "z"}};
  CallPlan::Base base;
  base.geometry = {DType::kFloat32, {6}, {1}, 0};
  base.views.resize(2);
  base.views[1].input = 1;
  plan.bases = {base};
  plan.argument_inputs = {-1, 2};
  return plan;
}

TEST(CallPlanTextTest, NamesInputsAndBases) {
  const CallPlan plan = Plan();
  const CallPlanText text(plan);
  EXPECT_EQ(text.Input(2), "z");
  EXPECT_EQ(text.Inputs({0, 2}), "x, z");
  EXPECT_EQ(text.Argument(0), "base of x, y");
  EXPECT_EQ(text.Argument(1), "z");
  EXPECT_EQ(text.Bases(), "f32[6]{1} is the base of x, y");
}

TEST(CallPlanTextTest, TellsWhoIsWhom) {
  CallPlan plan = Plan();
  EXPECT_EQ(CallPlanText(plan).Duplicates(), "");
  plan.duplicates = {{1, 0}};
  plan.must_not_alias = {{2, 0}};
  plan.gradient_inputs = {1, 0};
  EXPECT_EQ(CallPlanText(plan).Duplicates(), "y is x, z is not x");
  EXPECT_EQ(CallPlanText(plan).Gradients(), "z, base of x, y");
}

TEST(CallPlanTextTest, TellsWhatAutogradKnowsOfWrites) {
  CallPlan plan = Plan();
  CallPlan::WriteBack tracked;
  tracked.argument = 1;
  tracked.tangent = 0;
  CallPlan::WriteBack hidden;
  hidden.bumps_version = false;
  plan.write_backs = {tracked, hidden};
  plan.detached_inputs = {2};
  EXPECT_EQ(CallPlanText(plan).WriteBacks(/*only_tracked=*/true), "content of z with grad_fn");
  EXPECT_EQ(CallPlanText(plan).WriteBacks(/*only_tracked=*/false),
            "content of z with grad_fn, content of base of x, y hidden from autograd, detached z");
}

TEST(CallPlanTextTest, TellsHowOutputsAreMade) {
  using Kind = CallPlan::Output::Kind;
  CallPlan plan = Plan();
  for (const Kind kind : {Kind::kScalar, Kind::kReturned, Kind::kSameOutput, Kind::kIsInput, Kind::kViewOfInput,
                          Kind::kViewOfBase, Kind::kViewOfOutput, Kind::kSharesInputStorage}) {
    CallPlan::Output output;
    output.output = static_cast<int>(plan.outputs.size());
    output.kind = kind;
    output.index = 1;
    plan.outputs.push_back(output);
  }
  EXPECT_EQ(
      CallPlanText(plan).Outputs(),
      "output 0 a value, output 1 new, output 2 is output 1, output 3 is y, output 4 a view of y, output 5 a view "
      "of an intermediate, output 6 a view of output 1, output 7 in the memory of y");
}

}  // namespace
}  // namespace cotan
