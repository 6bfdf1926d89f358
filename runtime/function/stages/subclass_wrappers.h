// SPDX-License-Identifier: Apache-2.0

// FlattenStage, RewrapStage: arguments and outputs of wrapper types (AOTDispatchSubclassWrapper).
#ifndef COTAN_RUNTIME_FUNCTION_STAGES_SUBCLASS_WRAPPERS_H_
#define COTAN_RUNTIME_FUNCTION_STAGES_SUBCLASS_WRAPPERS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/autograd/variable.h"
#include "runtime/function/core/call_context.h"
#include "runtime/function/core/function_metadata.h"
#include "runtime/function/stages/call_stage.h"

namespace cotan {

// Appends the tensors of wrapper-typed arguments to call.flat_arguments, which become the call's arguments.
class FlattenStage final : public CallStage {
 public:
  static std::unique_ptr<FlattenStage> Create(const FunctionMetadata& function);

  absl::string_view name() const override { return "flatten"; }
  absl::Status Run(CallContext& call) override;
  std::string ToString() const override;

 private:
  explicit FlattenStage(const FunctionMetadata& function) : types_(*function.wrappers) {}

  const WrapperTypes& types_;
};

// Builds wrapper-typed outputs from flat ones.
class RewrapStage final : public CallStage {
 public:
  static std::unique_ptr<RewrapStage> Create(const FunctionMetadata& function);

  absl::string_view name() const override { return "rewrap"; }
  absl::Status Run(CallContext& call) override;
  std::string ToString() const override;

 private:
  explicit RewrapStage(const FunctionMetadata& function) : types_(*function.wrappers) {}

  const WrapperTypes& types_;
  std::vector<Variable> parts_;  // of one output; empty between calls
};

// Converts an output of Call() to one of CallWrapped().
WrappedResult PlainResult(FunctionResult result);

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_STAGES_SUBCLASS_WRAPPERS_H_
