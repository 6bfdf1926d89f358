// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/new_leaves.h"

#include "base/status_macros.h"

namespace cotan {

std::unique_ptr<NewLeavesStage> NewLeavesStage::Create(const FunctionMetadata& function) {
  std::unique_ptr<NewLeavesStage> stage(new NewLeavesStage(function));
  for (int i = 0; i < function.metadata.num_inputs(); ++i) {
    if (function.metadata.input(i).history == GradFnChange::kNewLeaf) stage->inputs_.push_back(i);
  }
  if (stage->inputs_.empty()) return nullptr;
  return stage;
}

absl::Status NewLeavesStage::Run(CallContext& call) {
  if (!call.in_traced_mode) return absl::OkStatus();
  for (int input : inputs_) {
    Variable leaf = call.input(input);
    COTAN_RETURN_IF_ERROR(leaf.RequiresGrad(true));
  }
  return absl::OkStatus();
}

std::string NewLeavesStage::ToString() const { return function_.InputNames(inputs_); }

}  // namespace cotan
