// SPDX-License-Identifier: Apache-2.0

// InputMutationsStage: mutations of arguments (RuntimeWrapper, the epilogue over mutated_inp_runtime_indices).
#ifndef COTAN_RUNTIME_FUNCTION_STAGES_INPUT_MUTATIONS_H_
#define COTAN_RUNTIME_FUNCTION_STAGES_INPUT_MUTATIONS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/function/core/call_context.h"
#include "runtime/function/core/function_metadata.h"
#include "runtime/function/core/mutations.h"
#include "runtime/function/stages/call_stage.h"

namespace cotan {

// Applies data, metadata and storage mutations to the arguments: copy_, as_strided_, set_, detach_. Order: data-only
// writes, metadata mutations, data writes of metadata-mutated inputs, storage mutations.
class InputMutationsStage final : public CallStage {
 public:
  static std::unique_ptr<InputMutationsStage> Create(const FunctionMetadata& function);
  // `bumped_arguments`: program arguments that the program writes and autograd tracks. `detached_inputs`: those after
  // detach_() or requires_grad_(false). `keeps_view`: by metadata mutation, whether an output is a view of the input
  // with its old metadata; elements that the new metadata hides have a gradient through it.
  InputMutationsStage(const FunctionMetadata& function, std::vector<int> bumped_arguments,
                      std::vector<int> detached_inputs, std::vector<bool> keeps_view);

  absl::string_view name() const override { return "write back"; }
  absl::Status Run(CallContext& call) override;
  std::string ToString() const override;

 private:
  absl::Status ChangeMetadata(CallContext& call, size_t index) const;
  absl::Status ChangeStorages(CallContext& call) const;

  const FunctionMetadata& function_;
  const Mutations& mutations_;
  const std::vector<int> bumped_arguments_;
  const std::vector<int> detached_inputs_;
  const std::vector<bool> keeps_view_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_STAGES_INPUT_MUTATIONS_H_
