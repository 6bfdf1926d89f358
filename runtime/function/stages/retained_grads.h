// SPDX-License-Identifier: Apache-2.0

// RetainedGradsStage: retain_grad() on inputs and outputs (no wrapper: AOTAutograd does not support it).
#ifndef COTAN_RUNTIME_FUNCTION_STAGES_RETAINED_GRADS_H_
#define COTAN_RUNTIME_FUNCTION_STAGES_RETAINED_GRADS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/function/core/call_context.h"
#include "runtime/function/core/function_metadata.h"
#include "runtime/function/stages/call_stage.h"

namespace cotan {

// Calls RetainGrad() of the arguments and results of which the traced function called retain_grad(). Those that do not
// require grad, because gradients are disabled, have none to retain.
class RetainedGradsStage final : public CallStage {
 public:
  static std::unique_ptr<RetainedGradsStage> Create(const FunctionMetadata& function);

  absl::string_view name() const override { return "retain"; }
  absl::Status Run(CallContext& call) override;
  std::string ToString() const override;

 private:
  explicit RetainedGradsStage(const FunctionMetadata& function) : function_(function) {}

  const FunctionMetadata& function_;
  std::vector<int> inputs_;
  std::vector<int> outputs_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_STAGES_RETAINED_GRADS_H_
