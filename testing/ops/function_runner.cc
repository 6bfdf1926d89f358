// SPDX-License-Identifier: Apache-2.0

#include "testing/ops/function_runner.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "aot/capture/argument.h"
#include "base/status_macros.h"
#include "testing/ops/compiled_function.h"
#include "testing/ops/tensor_bridge.h"

namespace cotan::testing {
namespace {

using Tensors = std::vector<at::Tensor>;

Tensors ThatRequireGrad(const Tensors& tensors) {
  Tensors found;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.requires_grad()) found.push_back(tensor);
  }
  return found;
}

// Results of LibTorch.
struct Expected {
  Tensors outputs;
  std::vector<bool> requires_grad;  // by output
  Tensors tangents;                 // of outputs that require grad
  Tensors gradients;                // of inputs that require grad; undefined where there is none
};

Expected RunEager(const aot::TensorFunction& function, const Tensors& inputs, bool with_gradients) {
  Expected expected;
  const Tensors leaves = Leaves(inputs, with_gradients);
  const at::AutoGradMode mode(true);
  expected.outputs = function(leaves);
  for (const at::Tensor& output : expected.outputs) expected.requires_grad.push_back(output.requires_grad());
  const Tensors roots = ThatRequireGrad(expected.outputs);
  for (const at::Tensor& root : roots) expected.tangents.push_back(at::rand_like(root.detach()) + 0.5);
  if (roots.empty()) return expected;
  const Tensors sources = ThatRequireGrad(leaves);
  expected.gradients = torch::autograd::grad(roots, sources, expected.tangents, /*retain_graph=*/false,
                                             /*create_graph=*/false, /*allow_unused=*/true);
  return expected;
}

Judgement Differs(std::string message) { return {Verdict::kDiffers, std::move(message)}; }

// Compares one tensor and merges the result into `judgement`.
void Compare(const std::string& what, const at::Tensor& actual, const at::Tensor& expected, const FunctionCheck& check,
             Judgement& judgement) {
  if (actual.defined() != expected.defined()) {
    judgement = Differs(absl::StrCat(what, actual.defined() ? " is defined" : " is undefined", ", unlike LibTorch's"));
    return;
  }
  if (!actual.defined()) return;
  if (actual.scalar_type() != expected.scalar_type() || actual.sizes() != expected.sizes()) {
    judgement = Differs(absl::StrCat(what, " has another dtype or other sizes than LibTorch's"));
    return;
  }
  if (check.random) return;
  const double error = ErrorOf(actual, expected);
  judgement.error = std::max(judgement.error, error);
  if (error > check.tolerance && judgement.verdict == Verdict::kAgrees) {
    judgement.verdict = Verdict::kDiffers;
    judgement.message = absl::StrCat(what, " is off by ", error, " eps");
  }
}

// Runs a compiled function. Errors: those of the runtime.
absl::StatusOr<Judgement> RunCompiled(CompiledFunction& compiled, const Tensors& inputs, bool with_gradients,
                                      const Expected& expected, const FunctionCheck& check) {
  Judgement judgement{Verdict::kAgrees, ""};
  if (!with_gradients) {
    COTAN_ASSIGN_OR_RETURN(const Tensors results, compiled.Call(inputs));
    if (results.size() != expected.outputs.size()) return Differs("the number of results differs");
    for (size_t i = 0; i < results.size(); ++i) {
      Compare(absl::StrCat("result ", i), results[i], expected.outputs[i].detach(), check, judgement);
    }
    return judgement;
  }
  COTAN_ASSIGN_OR_RETURN(const Tensors gradients,
                         compiled.Gradients(inputs, expected.requires_grad, expected.tangents));
  for (size_t i = 0; i < gradients.size(); ++i) {
    Compare(absl::StrCat("the gradient of input ", i), gradients[i], expected.gradients[i], check, judgement);
  }
  return judgement;
}

Judgement Judge(const aot::TensorFunction& function, const Tensors& inputs, bool with_gradients,
                const FunctionCheck& check) {
  Expected expected;
  try {
    expected = RunEager(function, inputs, with_gradients);
  } catch (const std::exception& e) {
    // A function that runs only without gradients is not differentiable.
    return {with_gradients ? Verdict::kNotDifferentiable : Verdict::kRefusedByLibTorch,
            std::string(e.what()).substr(0, 200)};
  }
  if (with_gradients && expected.tangents.empty()) return {Verdict::kNotDifferentiable, ""};
  absl::StatusOr<CompiledFunction> compiled = CompiledFunction::Create(function, inputs, with_gradients, check.options);
  if (!compiled.ok()) {
    const bool refused = compiled.status().code() == absl::StatusCode::kUnimplemented;
    return {refused ? Verdict::kRefused : Verdict::kFailed, std::string(compiled.status().message())};
  }
  const absl::StatusOr<Judgement> judgement = RunCompiled(*compiled, inputs, with_gradients, expected, check);
  return judgement.ok() ? *judgement : Differs(std::string(judgement.status().message()));
}

// Replaces the tensors of `value` by the next ones of `inputs`.
void Substitute(c10::IValue& value, const Tensors& inputs, size_t& next) {
  aot::ReplaceTensors(value, [&](const at::Tensor&) { return inputs[next++]; });
}

void AddResult(const c10::IValue& value, Tensors& results) {
  if (value.isTensor() || value.isTensorList()) {
    aot::VisitTensors(value, [&](const at::Tensor& tensor) { results.push_back(tensor); });
  } else if (value.isInt() || value.isBool() || value.isDouble() || value.isSymInt()) {
    results.push_back(at::scalar_tensor(value.toScalar()));
  }
}

}  // namespace

FunctionOutcome RunFunctionBothWays(const aot::TensorFunction& function, const Tensors& inputs,
                                    const FunctionCheck& check) {
  FunctionOutcome outcome;
  outcome.forward = Judge(function, inputs, /*with_gradients=*/false, check);
  outcome.backward = Judge(function, inputs, /*with_gradients=*/true, check);
  return outcome;
}

aot::TensorFunction FunctionOf(const std::string& op, const OpArguments& arguments, Tensors& inputs) {
  const c10::OperatorHandle handle = aot::FindOperator(op).value();
  for (const c10::IValue& argument : arguments) {
    aot::VisitTensors(argument, [&](const at::Tensor& tensor) { inputs.push_back(tensor); });
  }
  return [handle, arguments](const Tensors& given) {
    OpArguments stack;
    size_t next = 0;
    for (size_t i = 0; i < arguments.size(); ++i) {
      c10::IValue argument = arguments[i];
      Substitute(argument, given, next);
      const c10::AliasInfo* alias = handle.schema().arguments()[i].alias_info();
      if (alias != nullptr && alias->isWrite() && argument.isTensor()) argument = argument.toTensor().clone();
      stack.push_back(std::move(argument));
    }
    handle.callBoxed(stack);
    Tensors results;
    for (const c10::IValue& value : stack) AddResult(value, results);
    return results;
  };
}

}  // namespace cotan::testing
