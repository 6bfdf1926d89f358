// SPDX-License-Identifier: Apache-2.0

// Compares ops that tracing rewrites with LibTorch, through the whole compiler: results and gradients.
#include <ATen/ATen.h>

#include <vector>

#include "gtest/gtest.h"
#include "testing/ops/function_runner.h"
#include "testing/ops/op_cases.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

TEST(TracedOpsTest, AgreeWithLibTorchForwardAndBackward) {
  at::manual_seed(11);
  const OpCaseGroup group = TracedOpCases();
  int compared = 0;
  for (const OpCase& c : group.cases) {
    OpArguments arguments;
    for (const Arg& arg : c.arguments) arguments.push_back(arg(at::kFloat));
    std::vector<at::Tensor> inputs;
    const aot::TensorFunction function = FunctionOf("aten." + c.op, arguments, inputs);
    const FunctionOutcome outcome = RunFunctionBothWays(function, inputs, {.tolerance = group.tolerance});
    SCOPED_TRACE(::testing::PrintToString(c.op));
    EXPECT_EQ(outcome.forward.verdict, Verdict::kAgrees) << outcome.forward.message;
    EXPECT_TRUE(outcome.backward.verdict == Verdict::kAgrees || outcome.backward.verdict == Verdict::kNotDifferentiable)
        << outcome.backward.message;
    compared += outcome.backward.verdict == Verdict::kAgrees;
  }
  EXPECT_GT(compared, 40);
}

// Tracing folds a constant tensor to a number, but the bias of prim.matmul must be a tensor.
TEST(TracedOpsTest, AddmmTakesAConstantBias) {
  const aot::TensorFunction function = [](const std::vector<at::Tensor>& in) {
    return std::vector<at::Tensor>{at::addmm(at::full({}, 2, in[0].options()), in[0], in[1])};
  };
  std::vector<at::Tensor> inputs = {at::rand({4, 3}), at::rand({3, 5})};
  for (at::Tensor& input : inputs) input.requires_grad_();
  const FunctionOutcome outcome = RunFunctionBothWays(function, inputs, {.tolerance = kMatmul});
  EXPECT_EQ(outcome.forward.verdict, Verdict::kAgrees) << outcome.forward.message;
  EXPECT_EQ(outcome.backward.verdict, Verdict::kAgrees) << outcome.backward.message;
}

TEST(TracedOpsTest, RandomOpsHaveTheDtypesAndSizesOfLibTorch) {
  at::manual_seed(12);
  for (const OpCase& c : RandomOpCases().cases) {
    OpArguments arguments;
    for (const Arg& arg : c.arguments) arguments.push_back(arg(at::kFloat));
    std::vector<at::Tensor> inputs;
    const aot::TensorFunction function = FunctionOf("aten." + c.op, arguments, inputs);
    const FunctionOutcome outcome = RunFunctionBothWays(function, inputs, {.random = true});
    SCOPED_TRACE(::testing::PrintToString(c.op));
    EXPECT_EQ(outcome.forward.verdict, Verdict::kAgrees) << outcome.forward.message;
    EXPECT_TRUE(outcome.backward.verdict == Verdict::kAgrees || outcome.backward.verdict == Verdict::kNotDifferentiable)
        << outcome.backward.message;
  }
}

}  // namespace
}  // namespace cotan::testing
