// SPDX-License-Identifier: Apache-2.0

// Tests the CompileOptions about ops and saved values through artifacts and the runtime.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <string>
#include <vector>

#include "aot/compile.h"
#include "testing/ops/compiled_function.h"
#include "testing/ops/function_runner.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

using ::testing::HasSubstr;
using IValues = std::vector<c10::IValue>;
using Tensors = std::vector<at::Tensor>;

// An op without a decomposition or lowering in Cotan.
at::Tensor Cube(const at::Tensor& x) { return at::pow(x, 3); }

TORCH_LIBRARY(cotan_test, library) { library.def("cube(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(cotan_test, CPU, library) { library.impl("cube", &Cube); }

at::Tensor CallCube(const at::Tensor& x) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("cotan_test::cube", "").typed<at::Tensor(const at::Tensor&)>();
  return op.call(x);
}

void ExpectAgreement(const aot::TensorFunction& function, const Tensors& inputs, const aot::CompileOptions& options) {
  const FunctionOutcome outcome = RunFunctionBothWays(function, inputs, {.tolerance = kMatmul, .options = options});
  EXPECT_EQ(outcome.forward.verdict, Verdict::kAgrees) << outcome.forward.message;
  EXPECT_EQ(outcome.backward.verdict, Verdict::kAgrees) << outcome.backward.message;
}

TEST(DecompositionsTest, MakeACustomOpRun) {
  const aot::TensorFunction function = [](const Tensors& in) { return Tensors{CallCube(in[0].t()) + in[1]}; };
  const Tensors inputs = {at::rand({3, 2}), at::rand({3})};
  EXPECT_THAT(std::string(CompiledFunction::Create(function, inputs, false).status().message()),
              HasSubstr("cotan_test.cube.default: it is not supported"));
  aot::CompileOptions options;
  options.tracing.decompositions["cotan_test.cube.default"] = [](const IValues& a) -> IValues {
    const at::Tensor& x = a[0].toTensor();
    return {x * x * x};
  };
  const FunctionOutcome outcome = RunFunctionBothWays(function, inputs, {.tolerance = kMatmul, .options = options});
  EXPECT_EQ(outcome.forward.verdict, Verdict::kAgrees) << outcome.forward.message;
}

TEST(DecompositionsTest, ReplaceOpsOfTheForwardAndOfTheBackward) {
  aot::CompileOptions options;
  options.tracing.decompositions["aten.addcmul.default"] = [](const IValues& a) -> IValues {
    return {a[0].toTensor() + a[1].toTensor() * a[2].toTensor() * a[3].toScalar()};
  };
  options.tracing.decompositions["aten.tanh_backward.default"] = [](const IValues& a) -> IValues {
    return {a[0].toTensor() * (1 - a[1].toTensor().square())};
  };
  ExpectAgreement([](const Tensors& in) { return Tensors{at::addcmul(in[0], in[1], in[2], 0.5).tanh()}; },
                  {at::rand({2, 3}), at::rand({3}), at::rand({2, 1})}, options);
}

// Two layers; the backward reads the result of each.
Tensors TwoLayers(const Tensors& in) {
  const at::Tensor hidden = at::exp(at::sin(at::matmul(in[0], in[1])));
  return {at::exp(at::sin(at::matmul(hidden, in[2])))};
}

// Returns the number of values that the forward saves.
uint32_t SavedBy(const aot::SavePolicyFunction& policy, const Tensors& inputs) {
  aot::CompileOptions options;
  options.save_policy = policy;
  ExpectAgreement(TwoLayers, inputs, options);
  const auto compiled = CompiledFunction::Create(TwoLayers, inputs, /*with_gradients=*/true, options);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return (*compiled->program())->artifact().methods(0).num_saved();
}

TEST(SavePolicyTest, DecidesWhatTheForwardSaves) {
  const Tensors inputs = {at::rand({4, 5}), at::rand({5, 6}), at::rand({6, 3})};
  const auto always = [](aot::SavePolicy policy) {
    return [policy](const aot::Graph&, const aot::Node&) { return policy; };
  };
  const uint32_t by_default = SavedBy(nullptr, inputs);
  EXPECT_EQ(SavedBy(always(aot::SavePolicy::kDefault), inputs), by_default);
  EXPECT_EQ(SavedBy(always(aot::SavePolicy::kRecompute), inputs), inputs.size());
  const uint32_t products = SavedBy(
      [](const aot::Graph&, const aot::Node& node) {
        return node.op == "prim.matmul" ? aot::SavePolicy::kSave : aot::SavePolicy::kRecompute;
      },
      inputs);
  EXPECT_EQ(products, inputs.size() + 2);
}

}  // namespace
}  // namespace cotan::testing
