// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/function.h"

#include <utility>

#include "base/status_macros.h"
#include "runtime/function/call_plan.h"
#include "runtime/session/session_access.h"
#include "runtime/session/session_core.h"

namespace cotan {

absl::StatusOr<Function> Function::Create(const Session& session, absl::string_view method,
                                          const FunctionOptions& options) {
  const std::shared_ptr<SessionCore>& core = SessionCoreOf(session);
  COTAN_ASSIGN_OR_RETURN(const int index, core->program().FindMethod(method));
  COTAN_ASSIGN_OR_RETURN(std::shared_ptr<CallPlan> plan, CallPlan::Create(core, index, options.verify_calls));
  return Function(std::move(plan));
}

absl::StatusOr<std::vector<FunctionResult>> Function::Call(absl::Span<const Variable> arguments) {
  std::vector<FunctionResult> results;
  COTAN_RETURN_IF_ERROR(plan_->Run(arguments, results));
  return results;
}

absl::StatusOr<std::vector<FunctionResult>> Function::Call(std::initializer_list<CallArgument<Variable>> arguments) {
  std::vector<Variable> variables;
  for (const CallArgument<Variable>& argument : arguments) {
    if (argument.number() == nullptr) {
      variables.push_back(argument.value());
      continue;
    }
    COTAN_ASSIGN_OR_RETURN(Tensor tensor,
                           plan_->metadata().TensorOfNumber(*argument.number(), static_cast<int>(variables.size())));
    variables.emplace_back(std::move(tensor));
  }
  return Call(absl::MakeConstSpan(variables));
}

absl::Status Function::Call(absl::Span<const Variable> arguments, std::vector<FunctionResult>& results) {
  return plan_->Run(arguments, results);
}

absl::StatusOr<std::vector<WrappedResult>> Function::CallWrapped(absl::Span<const WrappedVariable> arguments) {
  std::vector<WrappedResult> results;
  COTAN_RETURN_IF_ERROR(plan_->RunWrapped(arguments, results));
  return results;
}

int Function::num_arguments() const {
  const FunctionMetadata& metadata = plan_->metadata();
  return metadata.wrappers.has_value() ? static_cast<int>(metadata.wrappers->arguments.size())
                                       : metadata.num_arguments();
}

int Function::num_results() const {
  const FunctionMetadata& metadata = plan_->metadata();
  return metadata.wrappers.has_value() ? static_cast<int>(metadata.wrappers->outputs.size())
                                       : metadata.metadata.num_outputs();
}

std::string Function::ToString() const { return plan_->ToString(); }

const FunctionStats& Function::stats() const { return plan_->stats(); }

}  // namespace cotan
