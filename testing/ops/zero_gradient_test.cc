// SPDX-License-Identifier: Apache-2.0

// Checks that gradients which are zeros in eager are zeros of a compiled program, and that undefined ones
// are undefined.
#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "testing/ops/function_runner.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

using Tensors = std::vector<at::Tensor>;

void Compare(const std::string& name, const aot::TensorFunction& function, const Tensors& inputs) {
  SCOPED_TRACE(name);
  const FunctionOutcome outcome = RunFunctionBothWays(function, inputs, {.tolerance = kReduction});
  EXPECT_EQ(outcome.forward.verdict, Verdict::kAgrees) << outcome.forward.message;
  EXPECT_EQ(outcome.backward.verdict, Verdict::kAgrees) << outcome.backward.message;
}

std::string Name(int64_t mode, int64_t padding, bool align_corners) {
  return "mode " + std::to_string(mode) + ", padding " + std::to_string(padding) + (align_corners ? ", aligned" : "");
}

// Returns centers of elements, corners, and points outside.
at::Tensor Border() { return at::tensor({-3.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.25, 3.0, 7.0}, at::kFloat); }

TEST(ZeroGradientTest, GridSamplersHaveAGridGradientInAllModes) {
  at::manual_seed(31);
  const at::Tensor plane = at::rand({2, 3, 5, 4}), block = at::rand({1, 2, 3, 4, 5});
  const at::Tensor places = at::cartesian_prod({Border(), Border()}).view({1, 10, 10, 2}).expand({2, -1, -1, -1});
  const at::Tensor places3d =
      at::cartesian_prod({Border(), Border(), at::tensor({-1.0F, 0.1F})}).view({1, 10, 10, 2, 3});
  for (const int64_t mode : {0, 1, 2}) {
    for (const int64_t padding : {0, 1, 2}) {
      for (const bool aligned : {false, true}) {
        const auto sample = [=](const Tensors& in) -> Tensors {
          return {at::grid_sampler(in[0], in[1], mode, padding, aligned)};
        };
        Compare(Name(mode, padding, aligned), sample, {plane, at::rand({2, 6, 7, 2}) * 2.4 - 1.2});
        Compare(Name(mode, padding, aligned) + " at borders", sample, {plane, places});
        if (mode == 2) continue;
        Compare(Name(mode, padding, aligned) + " in 3d", sample, {block, at::rand({1, 3, 4, 5, 3}) * 2.4 - 1.2});
        Compare(Name(mode, padding, aligned) + " in 3d at borders", sample, {block, places3d});
      }
    }
  }
}

TEST(ZeroGradientTest, GridSamplersHaveAGradientOfTheGridAlone) {
  const at::Tensor plane = at::rand({2, 3, 5, 4});
  const auto sample = [plane](const Tensors& in) -> Tensors {
    return {at::grid_sampler(plane, in[0], 1, 0, false).relu_()};
  };
  Compare("nearest", sample, {at::rand({2, 6, 7, 2})});
  const auto affine = [plane](const Tensors& in) -> Tensors {
    const at::Tensor grid = at::affine_grid_generator(in[0], plane.sizes(), false);
    return {at::grid_sampler(plane, grid, 1, 2, false), grid};
  };
  Compare("affine_grid", affine, {at::rand({2, 2, 3})});
}

TEST(ZeroGradientTest, PiecewiseConstantFunctionsHaveZeroGradients) {
  const at::Tensor x = at::rand({3, 4}) * 4 - 2, y = at::rand({3, 4}) + 0.5;
  const struct {
    const char* name;
    aot::TensorFunction function;
  } cases[] = {
      {"round", [](const Tensors& in) -> Tensors { return {at::round(in[0])}; }},
      {"floor", [](const Tensors& in) -> Tensors { return {at::floor(in[0])}; }},
      {"ceil", [](const Tensors& in) -> Tensors { return {at::ceil(in[0])}; }},
      {"trunc", [](const Tensors& in) -> Tensors { return {at::trunc(in[0])}; }},
      {"frac", [](const Tensors& in) -> Tensors { return {at::frac(in[0])}; }},
      {"sign", [](const Tensors& in) -> Tensors { return {at::sign(in[0])}; }},
      {"sgn", [](const Tensors& in) -> Tensors { return {at::sgn(in[0])}; }},
      {"floor_divide", [](const Tensors& in) -> Tensors { return {at::div(in[0], in[1], "floor")}; }},
      {"trunc_divide", [](const Tensors& in) -> Tensors { return {at::div(in[0], in[1], "trunc")}; }},
      {"remainder", [](const Tensors& in) -> Tensors { return {at::remainder(in[0], in[1])}; }},
      {"fmod", [](const Tensors& in) -> Tensors { return {at::fmod(in[0], in[1])}; }},
      {"heaviside",
       [](const Tensors& in) -> Tensors { return {at::heaviside(in[0].detach(), in[1].detach()) + in[0]}; }},
      {"copysign", [](const Tensors& in) -> Tensors { return {at::copysign(in[0], in[1])}; }},
      {"ldexp", [](const Tensors& in) -> Tensors { return {at::ldexp(in[0], in[1].detach())}; }},
      {"fill", [](const Tensors& in) -> Tensors { return {at::fill(in[0], 2)}; }},
      {"zero_", [](const Tensors& in) -> Tensors { return {(in[0] * in[1]).zero_()}; }},
      {"fill_", [](const Tensors& in) -> Tensors { return {(in[0] * in[1]).fill_(3)}; }},
      {"copy_", [](const Tensors& in) -> Tensors { return {(in[0] * 1).copy_(in[1])}; }},
      {"masked_fill", [](const Tensors& in) -> Tensors { return {in[0].masked_fill(in[1] > 0, 1)}; }},
      {"nan_to_num", [](const Tensors& in) -> Tensors { return {at::nan_to_num(in[0])}; }},
      {"clamp", [](const Tensors& in) -> Tensors { return {at::clamp(in[0], in[1], in[1] + 1)}; }},
      {"where", [](const Tensors& in) -> Tensors { return {at::where(in[0] > 5, in[0], in[1])}; }},
      {"threshold", [](const Tensors& in) -> Tensors { return {at::threshold(in[0], 9, 0)}; }},
      {"p-norm of order 0", [](const Tensors& in) -> Tensors { return {at::norm(in[0], 0)}; }},
      {"pow 0", [](const Tensors& in) -> Tensors { return {at::pow(in[0], 0)}; }},
      {"cdist of order 0", [](const Tensors& in) -> Tensors { return {at::cdist(in[0], in[1], 0)}; }},
      {"quantization",
       [](const Tensors& in) -> Tensors { return {at::fake_quantize_per_tensor_affine(in[0], 0.1, 0, 0, 255)}; }},
      {"nearest resize",
       [](const Tensors& in) -> Tensors { return {at::upsample_nearest1d(in[0].unsqueeze(0), {9})}; }},
  };
  for (const auto& [name, function] : cases) Compare(name, function, {x, y});
}

}  // namespace
}  // namespace cotan::testing
