// SPDX-License-Identifier: Apache-2.0

// WrapResultsStage: Variables of the forward returns (AOTDispatchAutograd, CompiledFunction.apply).
#ifndef COTAN_RUNTIME_FUNCTION_STAGES_WRAP_RESULTS_H_
#define COTAN_RUNTIME_FUNCTION_STAGES_WRAP_RESULTS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/autograd/variable.h"
#include "runtime/function/core/call_context.h"
#include "runtime/function/core/function_metadata.h"
#include "runtime/function/core/returned_values.h"
#include "runtime/function/stages/call_stage.h"
#include "runtime/tensor/tensor.h"

namespace cotan {

// Makes Variables of the forward returns in call.returned, with call.node as grad_fn.
class WrapResultsStage final : public CallStage {
 public:
  static std::unique_ptr<WrapResultsStage> Create(const FunctionMetadata& function);
  explicit WrapResultsStage(const FunctionMetadata& function);

  absl::string_view name() const override { return "wrap"; }
  absl::Status Run(CallContext& call) override;
  std::string ToString() const override;

 private:
  absl::Status Wrap(CallContext& call);
  absl::Status WrapView(CallContext& call, size_t index);
  absl::Status SetGradFns(CallContext& call);
  absl::Status SetHiddenGradFns(const CallContext& call);
  absl::StatusOr<Tensor> TensorOf(CallContext& call, const ReturnedValue& value) const;
  absl::StatusOr<Variable> MakeHiddenBase(CallContext& call, int hidden);
  Variable InStorageOf(int index, Tensor tensor);

  const ReturnedValues& returned_;
  // Scratch, undefined between calls.
  std::vector<Variable> storages_;  // by returned value: a variable that holds the version counter of its storage
  std::vector<Variable> hidden_bases_;
};

// Returns the creation of a view that was traced as `traced` and is made in the current grad mode.
ViewCreation ViewCreationNow(ViewCreation traced);

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_STAGES_WRAP_RESULTS_H_
