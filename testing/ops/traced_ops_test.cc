// SPDX-License-Identifier: Apache-2.0

// Compares ops that tracing rewrites with LibTorch, through the whole compiler: results and gradients.
#include <ATen/ATen.h>

#include <functional>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "testing/ops/compiled_function.h"
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

// Returns the result of a compiled function of one tensor.
at::Tensor Drawn(const std::function<at::Tensor(const at::Tensor&)>& draw, const at::Tensor& input) {
  const aot::TensorFunction function = [&](const std::vector<at::Tensor>& in) {
    return std::vector<at::Tensor>{draw(in[0])};
  };
  absl::StatusOr<CompiledFunction> compiled = CompiledFunction::Create(function, {input}, /*with_gradients=*/false);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  if (!compiled.ok()) return at::empty({0});
  const absl::StatusOr<std::vector<at::Tensor>> results = compiled->Call({input});
  EXPECT_TRUE(results.ok()) << results.status();
  return results.ok() ? results->at(0) : at::empty({0});
}

double Mean(const at::Tensor& x) { return x.to(at::kDouble).mean().item<double>(); }

TEST(TracedOpsTest, TheRuntimeDrawsFromTheDistributions) {
  const at::Tensor ones = at::ones({20000});
  const at::Tensor log_normal = Drawn([](const at::Tensor& x) { return (x * 1).log_normal_(0.5, 0.25); }, ones).log();
  EXPECT_NEAR(Mean(log_normal), 0.5, 0.01);
  EXPECT_NEAR(log_normal.std().item<double>(), 0.25, 0.01);
  const at::Tensor cauchy = Drawn([](const at::Tensor& x) { return (x * 1).cauchy_(3, 2); }, ones);
  EXPECT_NEAR(cauchy.median().item<double>(), 3, 0.1);
  EXPECT_NEAR(Mean((cauchy - 3).abs() < 2), 0.5, 0.02);  // quartiles at 3 +- 2
  const at::Tensor geometric = Drawn([](const at::Tensor& x) { return (x * 1).geometric_(0.25); }, ones);
  EXPECT_NEAR(Mean(geometric), 4, 0.1);
  EXPECT_NEAR(Mean(geometric == 1), 0.25, 0.02);
  EXPECT_GE(geometric.min().item<double>(), 1);
}

// The largest weights add up to infinity, the smallest ones are zero in f32.
TEST(TracedOpsTest, TheRuntimeDrawsIndicesByWeight) {
  for (const double scale : {1.0, 5e307, 1e-300}) {
    SCOPED_TRACE(scale);
    const at::Tensor weights = at::tensor({0.0, 1.0, 0.0, 3.0, 0.0}, at::kDouble) * scale;
    const at::Tensor with = Drawn([](const at::Tensor& x) { return at::multinomial(x, 8000, /*replacement=*/true); },
                                  weights.expand({2, 5}));
    EXPECT_EQ(with.sizes(), (std::vector<int64_t>{2, 8000}));
    EXPECT_NEAR(Mean(with == 1), 0.25, 0.02);
    EXPECT_NEAR(Mean(with == 3), 0.75, 0.02);
    const at::Tensor without =
        Drawn([](const at::Tensor& x) { return at::multinomial(x, 2); }, weights.expand({4000, 5}));
    EXPECT_TRUE(std::get<0>(without.sort(-1)).equal(at::tensor({1, 3}, at::kLong).expand({4000, 2})));
    EXPECT_NEAR(Mean(without.select(1, 0) == 3), 0.75, 0.03);
  }
}

// A program squares a fixed number of times: enough for a 1-norm of 65536, and for each matrix of a batch by itself.
TEST(TracedOpsTest, AMatrixOfALargeNormHasNoExponential) {
  const at::Tensor x = at::diag_embed(at::tensor({-60000.0f, 0.0f, -70000.0f, 0.0f}).view({2, 2}));
  EXPECT_TRUE(at::isfinite(at::linalg_matrix_exp(x)).all().item<bool>());
  const at::Tensor exponentials = Drawn([](const at::Tensor& in) { return at::linalg_matrix_exp(in); }, x);
  EXPECT_TRUE(at::allclose(exponentials[0], at::diag(at::tensor({0.0f, 1.0f})))) << exponentials[0];
  EXPECT_TRUE(at::isnan(exponentials[1]).all().item<bool>()) << exponentials[1];
}

}  // namespace
}  // namespace cotan::testing
