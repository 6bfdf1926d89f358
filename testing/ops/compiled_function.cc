// SPDX-License-Identifier: Apache-2.0

#include "testing/ops/compiled_function.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <variant>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/engine.h"
#include "testing/ops/tensor_bridge.h"

namespace cotan::testing {
namespace {

using Tensors = std::vector<at::Tensor>;

absl::StatusOr<aot::CompiledModel> Compile(const aot::TensorFunction& function, const Tensors& inputs,
                                           bool with_gradients, aot::CompileOptions options = {}) {
  options.debug.store_references = false;
  const c10::AutoGradMode mode(true);
  return aot::CompileFunction(function, Leaves(inputs, with_gradients), options);
}

}  // namespace

Tensors Leaves(const Tensors& inputs, bool with_gradients) {
  Tensors leaves;
  for (const at::Tensor& input : inputs) {
    leaves.push_back(input.detach().clone());
    leaves.back().requires_grad_(with_gradients && (input.is_floating_point() || input.is_complex()));
  }
  return leaves;
}

absl::Status CompileOnly(const aot::TensorFunction& function, const Tensors& inputs, bool with_gradients) {
  return Compile(function, inputs, with_gradients).status();
}

absl::StatusOr<CompiledFunction> CompiledFunction::Create(const aot::TensorFunction& function, const Tensors& inputs,
                                                          bool with_gradients, const aot::CompileOptions& options) {
  COTAN_ASSIGN_OR_RETURN(const aot::CompiledModel model, Compile(function, inputs, with_gradients, options));
  return CompiledFunction(model.bytes(), with_gradients);
}

absl::StatusOr<std::shared_ptr<const Program>> CompiledFunction::program() const {
  return Program::LoadBytes(artifact_);
}

absl::Status CompiledFunction::Load() {
  if (function_.has_value()) return absl::OkStatus();
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const Program> loaded, program());
  COTAN_ASSIGN_OR_RETURN(session_, Session::Create(loaded, {.kernels = &CpuKernels(), .threads = 1}));
  COTAN_ASSIGN_OR_RETURN(function_, Function::Create(*session_, "forward"));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Variable>> CompiledFunction::Run(const Tensors& leaves, std::vector<Variable>& sources) {
  COTAN_RETURN_IF_ERROR(Load());
  std::vector<Variable> arguments;
  for (const at::Tensor& leaf : leaves) {
    COTAN_ASSIGN_OR_RETURN(Tensor borrowed, BorrowTensor(leaf.detach()));
    if (!leaf.requires_grad()) {
      arguments.emplace_back(std::move(borrowed));
      continue;
    }
    COTAN_ASSIGN_OR_RETURN(arguments.emplace_back(), Variable::Leaf(std::move(borrowed)));
    sources.push_back(arguments.back());
  }
  COTAN_ASSIGN_OR_RETURN(const std::vector<FunctionResult> results, function_->Call(arguments));
  std::vector<Variable> tensors;
  for (size_t i = 0; i < results.size(); ++i) {
    const Variable* variable = std::get_if<Variable>(&results[i]);
    if (variable == nullptr) return absl::FailedPreconditionError(absl::StrCat("result ", i, " is not a tensor"));
    tensors.push_back(*variable);
  }
  return tensors;
}

absl::StatusOr<Tensors> CompiledFunction::Call(const Tensors& inputs) {
  const Tensors leaves = Leaves(inputs, with_gradients_);
  std::vector<Variable> sources;
  COTAN_ASSIGN_OR_RETURN(const std::vector<Variable> results, Run(leaves, sources));
  Tensors tensors;
  for (const Variable& result : results) tensors.push_back(ToAten(result.tensor()));
  return tensors;
}

absl::StatusOr<Tensors> CompiledFunction::Gradients(const Tensors& inputs, const std::vector<bool>& is_root,
                                                    const Tensors& tangents) {
  const Tensors leaves = Leaves(inputs, with_gradients_);
  std::vector<Variable> sources, roots;
  COTAN_ASSIGN_OR_RETURN(const std::vector<Variable> results, Run(leaves, sources));
  for (size_t i = 0; i < results.size(); ++i) {
    if (is_root.at(i)) roots.push_back(results[i]);
  }
  std::vector<Tensor> given;
  for (const at::Tensor& tangent : tangents) {
    COTAN_ASSIGN_OR_RETURN(given.emplace_back(), BorrowTensor(tangent));
  }
  COTAN_ASSIGN_OR_RETURN(const std::vector<Tensor> gradients,
                         autograd::Grad(roots, sources, given, session_->ops(), {.allow_unused = true}));
  Tensors found;
  size_t next = 0;
  for (const at::Tensor& leaf : leaves) {
    if (!leaf.requires_grad()) continue;
    const Tensor& gradient = gradients[next++];
    found.push_back(gradient.defined() ? ToAten(gradient) : at::Tensor());
  }
  return found;
}

}  // namespace cotan::testing
