// SPDX-License-Identifier: Apache-2.0

// Compares special functions with references other than LibTorch, where LibTorch is accurate to half the
// digits of f64.
#include <ATen/ATen.h>

#include <cmath>
#include <functional>
#include <numbers>

#include "gtest/gtest.h"
#include "testing/ops/compiled_function.h"
#include "testing/ops/function_runner.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

std::vector<double> Values(const std::string& op, const OpArguments& arguments) {
  std::vector<at::Tensor> inputs;
  const aot::TensorFunction function = FunctionOf(op, arguments, inputs);
  absl::StatusOr<CompiledFunction> compiled = CompiledFunction::Create(function, inputs, /*with_gradients=*/false);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  if (!compiled.ok()) return {};
  const absl::StatusOr<std::vector<at::Tensor>> results = compiled->Call(inputs);
  EXPECT_TRUE(results.ok()) << results.status();
  if (!results.ok()) return {};
  const double* data = results->at(0).const_data_ptr<double>();
  return {data, data + results->at(0).numel()};
}

TEST(SpecialFunctionsTest, BesselFunctionsAgreeWithTheStandardLibrary) {
  const at::Tensor x = at::linspace(0.1, 30, 600, at::kDouble);
  const struct {
    const char* op;
    std::function<double(double)> expected;
  } cases[] = {
      {"aten.special_bessel_j0.default", [](double v) { return std::cyl_bessel_j(0.0, v); }},
      {"aten.special_bessel_j1.default", [](double v) { return std::cyl_bessel_j(1.0, v); }},
      {"aten.special_bessel_y0.default", [](double v) { return std::cyl_neumann(0.0, v); }},
      {"aten.special_bessel_y1.default", [](double v) { return std::cyl_neumann(1.0, v); }},
      {"aten.special_modified_bessel_k0.default", [](double v) { return std::cyl_bessel_k(0.0, v); }},
      {"aten.special_i1.default", [](double v) { return std::cyl_bessel_i(1.0, v); }},
  };
  for (const auto& [op, expected] : cases) {
    const std::vector<double> values = Values(op, {x});
    std::vector<double> wanted;
    for (int64_t i = 0; i < x.numel(); ++i) wanted.push_back(expected(x[i].item<double>()));
    EXPECT_LE(ErrorInEps<double>(values, wanted), kReduction) << op;
  }
}

TEST(SpecialFunctionsTest, TheFirstPolygammaHasItsKnownValues) {
  constexpr double kSquare = std::numbers::pi * std::numbers::pi;
  constexpr double kCatalan = 0.915965594177219015;
  const at::Tensor x = at::tensor({1.0, 0.5, 0.25, 2.0, -0.5, -1.5}, at::kDouble);
  const std::vector<double> wanted = {kSquare / 6,     kSquare / 2,     kSquare + 8 * kCatalan,
                                      kSquare / 6 - 1, kSquare / 2 + 4, kSquare / 2 + 4 + 4.0 / 9};
  EXPECT_LE(ErrorInEps<double>(Values("aten.polygamma.default", {1, x}), wanted), kTranscendental);
}

}  // namespace
}  // namespace cotan::testing
