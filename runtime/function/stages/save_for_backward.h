// SPDX-License-Identifier: Apache-2.0

// SaveForBackwardStage: the saved values of a call (AOTDispatchAutograd, ctx.save_for_backward()).
#ifndef COTAN_RUNTIME_FUNCTION_STAGES_SAVE_FOR_BACKWARD_H_
#define COTAN_RUNTIME_FUNCTION_STAGES_SAVE_FOR_BACKWARD_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/function/core/call_context.h"
#include "runtime/function/core/function_metadata.h"
#include "runtime/function/stages/call_stage.h"

namespace cotan {

// Adds the saved values to call.node. Runs after the mutations of inputs, so that the recorded versions are those at
// the end of the call.
class SaveForBackwardStage final : public CallStage {
 public:
  static std::unique_ptr<SaveForBackwardStage> Create(const FunctionMetadata& function);

  absl::string_view name() const override { return "save"; }
  absl::Status Run(CallContext& call) override;
  std::string ToString() const override;

 private:
  explicit SaveForBackwardStage(const FunctionMetadata& function);

  const FunctionMetadata& function_;
  int num_checked_ = 0;               // the version of the first num_checked_ saved values is checked
  std::vector<int> returned_values_;  // by result: the first returned value that it is; -1: none
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_STAGES_SAVE_FOR_BACKWARD_H_
