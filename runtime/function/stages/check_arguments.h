// SPDX-License-Identifier: Apache-2.0

// CheckArgumentsStage: the guards of a call (torch.compile; no wrapper of AOTAutograd).
#ifndef COTAN_RUNTIME_FUNCTION_STAGES_CHECK_ARGUMENTS_H_
#define COTAN_RUNTIME_FUNCTION_STAGES_CHECK_ARGUMENTS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/function/core/call_context.h"
#include "runtime/function/core/function_metadata.h"
#include "runtime/function/stages/call_stage.h"

namespace cotan {

// Checks the number of arguments, requires_grad, the storages of states and the grad mode. Fills call.inputs,
// call.in_traced_mode, call.is_recorded, and call.program_arguments except the bases. Duplicate inputs are dropped
// there.
class CheckArgumentsStage final : public CallStage {
 public:
  static std::unique_ptr<CheckArgumentsStage> Create(const FunctionMetadata& function);

  absl::string_view name() const override { return "check"; }
  absl::Status Run(CallContext& call) override;
  std::string ToString() const override;

 private:
  explicit CheckArgumentsStage(const FunctionMetadata& function) : function_(function) {}

  // Errors; apart from Run(), whose checks are a part of each call.
  absl::Status WrongNumber(const CallContext& call) const;
  absl::Status Undefined(const FunctionInput& input) const;
  absl::Status MovedState(const FunctionInput& input) const;
  absl::Status WrongRequiresGrad(const FunctionInput& input) const;

  absl::Status CheckGradMode(const CallContext& call) const;
  absl::Status CheckNoGradViews(const CallContext& call) const;

  const FunctionMetadata& function_;
  bool traced_without_grad_ = false;      // gradients were disabled at entry when traced
  std::vector<int> no_grad_view_inputs_;  // inputs that were views made under no_grad: no gradient flows through them
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_STAGES_CHECK_ARGUMENTS_H_
