// SPDX-License-Identifier: Apache-2.0

// Compares gradients of compiled functions with central differences of their own results, in f64,
// independently of LibTorch.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <set>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "testing/ops/compiled_function.h"
#include "testing/ops/finite_difference_cases.h"
#include "testing/ops/function_runner.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

using Tensors = std::vector<at::Tensor>;

// Near the cube root of eps, which minimizes the error of central differences.
constexpr double kStep = 1e-5;
// Fixed, because some seeds place an argument where an op is not smooth.
constexpr uint64_t kSeed = 20;

// A compiled function and the weights of its results in the sum that is differentiated.
struct Differentiated {
  CompiledFunction compiled;
  std::vector<bool> is_root;
  Tensors tangents;

  absl::StatusOr<double> Sum(const Tensors& inputs) {
    absl::StatusOr<Tensors> results = compiled.Call(inputs);
    if (!results.ok()) return results.status();
    double sum = 0;
    size_t next = 0;
    for (size_t i = 0; i < results->size(); ++i) {
      if (is_root[i]) sum += ((*results)[i] * tangents[next++]).sum().item<double>();
    }
    return sum;
  }
};

absl::StatusOr<Differentiated> Compile(const aot::TensorFunction& function, const Tensors& inputs) {
  absl::StatusOr<CompiledFunction> compiled = CompiledFunction::Create(function, inputs, /*with_gradients=*/true);
  if (!compiled.ok()) return compiled.status();
  Differentiated result{*std::move(compiled), {}, {}};
  const at::AutoGradMode mode(true);
  for (const at::Tensor& output : function(Leaves(inputs, /*with_gradients=*/true))) {
    result.is_root.push_back(output.requires_grad());
    if (output.requires_grad()) result.tangents.push_back(at::rand_like(output.detach()) + 0.5);
  }
  return result;
}

// Returns d sum / d inputs[k] by central differences, element by element.
absl::StatusOr<at::Tensor> CentralDifferences(Differentiated& function, const Tensors& inputs, size_t k) {
  const at::Tensor at = inputs[k].contiguous();
  at::Tensor differences = at::empty_like(at);
  for (int64_t i = 0; i < at.numel(); ++i) {
    double sums[2];
    for (const int side : {0, 1}) {
      Tensors moved = inputs;
      moved[k] = at.clone();
      moved[k].view({-1})[i] += side == 0 ? -kStep : kStep;
      // Keeps the strides of the input that the function was compiled for.
      moved[k] = at::empty_like(inputs[k]).copy_(moved[k]);
      absl::StatusOr<double> sum = function.Sum(moved);
      if (!sum.ok()) return sum.status();
      sums[side] = *sum;
    }
    differences.view({-1})[i] = (sums[1] - sums[0]) / (2 * kStep);
  }
  return differences;
}

void Check(const OpCase& c) {
  SCOPED_TRACE(c.op);
  OpArguments arguments;
  for (const Arg& arg : c.arguments) arguments.push_back(arg(at::kDouble));
  Tensors inputs;
  const aot::TensorFunction function = FunctionOf("aten." + c.op, arguments, inputs);
  absl::StatusOr<Differentiated> compiled = Compile(function, inputs);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  ASSERT_FALSE(compiled->tangents.empty()) << "no result is differentiable";
  const absl::StatusOr<Tensors> gradients = compiled->compiled.Gradients(inputs, compiled->is_root, compiled->tangents);
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  size_t next = 0;
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!inputs[k].is_floating_point()) continue;
    const at::Tensor& found = (*gradients)[next++];
    const at::Tensor gradient = found.defined() ? found : at::zeros_like(inputs[k]);
    const absl::StatusOr<at::Tensor> expected = CentralDifferences(*compiled, inputs, k);
    ASSERT_TRUE(expected.ok()) << expected.status();
    const double scale = std::max(1.0, expected->abs().max().item<double>());
    const double error = (gradient - *expected).abs().max().item<double>() / scale;
    EXPECT_LE(error, kFiniteDifference) << "input " << k << "\n" << gradient << "\n" << *expected;
  }
  EXPECT_GT(next, 0u);
}

class FiniteDifferenceTest : public ::testing::TestWithParam<FiniteDifferenceGroup> {};

TEST_P(FiniteDifferenceTest, GradientsAgreeWithDifferencesOfTheResults) {
  std::cout << "seed " << kSeed << "\n";
  at::manual_seed(kSeed);
  for (const OpCase& c : GetParam().cases) Check(c);
}

INSTANTIATE_TEST_SUITE_P(Families, FiniteDifferenceTest, ::testing::ValuesIn(FiniteDifferenceCases()),
                         [](const auto& info) { return info.param.family; });

TEST(FiniteDifferenceCasesTest, CoverManyOps) {
  std::set<std::string> ops;
  for (const FiniteDifferenceGroup& group : FiniteDifferenceCases()) {
    for (const OpCase& c : group.cases) ops.insert(c.op);
  }
  EXPECT_GE(ops.size(), 120u);
}

}  // namespace
}  // namespace cotan::testing
