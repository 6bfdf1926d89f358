// SPDX-License-Identifier: Apache-2.0

// NewLeavesStage: requires_grad_() on inputs (no wrapper: AOTAutograd does not support it).
#ifndef COTAN_RUNTIME_FUNCTION_STAGES_NEW_LEAVES_H_
#define COTAN_RUNTIME_FUNCTION_STAGES_NEW_LEAVES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/function/core/call_context.h"
#include "runtime/function/core/function_metadata.h"
#include "runtime/function/stages/call_stage.h"

namespace cotan {

// Makes leaves of inputs on which the traced function called requires_grad_().
class NewLeavesStage final : public CallStage {
 public:
  static std::unique_ptr<NewLeavesStage> Create(const FunctionMetadata& function);

  absl::string_view name() const override { return "new leaves"; }
  absl::Status Run(CallContext& call) override;
  std::string ToString() const override;

 private:
  explicit NewLeavesStage(const FunctionMetadata& function) : function_(function) {}

  const FunctionMetadata& function_;
  std::vector<int> inputs_;  // that did not require grad at entry, and are leaves that do at exit
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_STAGES_NEW_LEAVES_H_
