// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/check_arguments.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/autograd/grad_mode.h"

namespace cotan {

std::unique_ptr<CheckArgumentsStage> CheckArgumentsStage::Create(const FunctionMetadata& function) {
  std::unique_ptr<CheckArgumentsStage> stage(new CheckArgumentsStage(function));
  const serialization::Method& method = function.method_proto();
  stage->traced_without_grad_ = method.traced_without_grad();
  stage->no_grad_view_inputs_.assign(method.no_grad_view_inputs().begin(), method.no_grad_view_inputs().end());
  return stage;
}

absl::Status CheckArgumentsStage::Run(CallContext& call) {
  const auto num_states = static_cast<size_t>(function_.num_states);
  if (call.arguments.size() != function_.inputs.size() - num_states) return WrongNumber(call);
  for (size_t i = 0; i < function_.inputs.size(); ++i) {
    const FunctionInput& input = function_.inputs[i];
    if (input.state < 0) {
      call.inputs[i] = &call.arguments[i - num_states];
      if (!call.inputs[i]->defined()) return Undefined(input);
    } else if (call.inputs[i]->tensor().storage() != call.core.session().states().tensor(input.state).storage()) {
      return MovedState(input);
    }
    if (call.inputs[i]->requires_grad() != input.requires_grad) return WrongRequiresGrad(input);
  }
  const bool grad_enabled = GradMode::enabled();
  if (traced_without_grad_ && grad_enabled) COTAN_RETURN_IF_ERROR(CheckGradMode(call));
  call.in_traced_mode = grad_enabled != traced_without_grad_;
  call.is_recorded = call.in_traced_mode && function_.makes_node();
  if (call.is_recorded) COTAN_RETURN_IF_ERROR(CheckNoGradViews(call));
  for (size_t k = call.bases.size(); k < function_.argument_inputs.size(); ++k) {
    call.program_arguments[k] = call.inputs[static_cast<size_t>(function_.argument_inputs[k])];
  }
  return absl::OkStatus();
}

absl::Status CheckArgumentsStage::WrongNumber(const CallContext& call) const {
  std::string names;
  for (size_t i = static_cast<size_t>(function_.num_states); i < function_.inputs.size(); ++i) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", function_.inputs[i].name);
  }
  return Refuse(function_, "takes ", function_.num_arguments(), " arguments (", names, "), got ",
                call.arguments.size());
}

absl::Status CheckArgumentsStage::Undefined(const FunctionInput& input) const {
  return Refuse(function_, "argument '", input.name, "' is undefined");
}

absl::Status CheckArgumentsStage::MovedState(const FunctionInput& input) const {
  return absl::FailedPreconditionError(
      absl::StrCat("function '", function_.name, "': '", input.name,
                   "' has been given another storage; the session's program reads and writes the one it had: copy "
                   "into it instead"));
}

absl::Status CheckArgumentsStage::WrongRequiresGrad(const FunctionInput& input) const {
  return Refuse(function_, "argument '", input.name, "' ", input.requires_grad ? "required" : "did not require",
                " grad when the program was traced, but the one given ", input.requires_grad ? "does not" : "does");
}

absl::Status CheckArgumentsStage::CheckGradMode(const CallContext& call) const {
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (!call.inputs[i]->requires_grad()) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("function '", function_.name, "' was traced with gradients disabled, but they are enabled and '",
                     function_.inputs[i].name, "' requires grad: call it under GradModeGuard(false)"));
  }
  return absl::OkStatus();
}

absl::Status CheckArgumentsStage::CheckNoGradViews(const CallContext& call) const {
  for (int input : no_grad_view_inputs_) {
    const absl::StatusOr<autograd::Edge> edge = call.input(input).GradientEdge();
    if (!edge.ok() || !edge->defined()) continue;
    return Refuse(function_, "argument '", function_.input(input).name,
                  "' was a view made under no_grad when the program was traced, so that no gradient flows through it; "
                  "the one given has a gradient");
  }
  return absl::OkStatus();
}

std::string CheckArgumentsStage::ToString() const {
  return absl::StrCat(function_.num_arguments(), " arguments, ", function_.num_states, " parameters and buffers");
}

}  // namespace cotan
