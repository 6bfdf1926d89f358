// SPDX-License-Identifier: Apache-2.0

// ForwardStage: the program (AOTDispatchAutograd, CompiledFunction.forward; FunctionalizedRngRuntimeWrapper).
#ifndef COTAN_RUNTIME_FUNCTION_STAGES_FORWARD_H_
#define COTAN_RUNTIME_FUNCTION_STAGES_FORWARD_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/function/core/call_context.h"
#include "runtime/function/core/function_metadata.h"
#include "runtime/function/stages/call_stage.h"
#include "runtime/function/stages/result_placement.h"
#include "runtime/session/sizing_chain.h"

namespace cotan {

// Prepares the plan, checks the mutations, allocates the results and runs the method on plain tensors. The RNG state is
// a state of the session that the method updates.
class ForwardStage final : public CallStage {
 public:
  static std::unique_ptr<ForwardStage> Create(const FunctionMetadata& function);

  absl::string_view name() const override { return "forward"; }
  absl::Status Run(CallContext& call) override;
  std::string ToString() const override;

 private:
  explicit ForwardStage(const FunctionMetadata& function);

  absl::Status RunProgram(CallContext& call);

  const FunctionMetadata& function_;
  ResultPlacement placement_;
  std::optional<SizingChain> sizing_;  // set by the first call
  const bool checks_mutations_;        // an input gets another geometry or storage
  std::vector<int> updated_states_;    // states that the method writes
  bool draws_random_numbers_ = false;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_STAGES_FORWARD_H_
