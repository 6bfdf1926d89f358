// SPDX-License-Identifier: Apache-2.0

// RecordStage: the autograd node of a call (AOTDispatchAutograd, CompiledFunction.apply).
#ifndef COTAN_RUNTIME_FUNCTION_STAGES_RECORD_H_
#define COTAN_RUNTIME_FUNCTION_STAGES_RECORD_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/sym_int.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/variable.h"
#include "runtime/function/core/call_context.h"
#include "runtime/function/core/function_metadata.h"
#include "runtime/function/stages/call_stage.h"

namespace cotan {

// Creates call.node with edges to the grad_fn of the arguments.
class RecordStage final : public CallStage {
 public:
  static std::unique_ptr<RecordStage> Create(const FunctionMetadata& function);
  explicit RecordStage(const FunctionMetadata& function) : function_(function) {}

  absl::string_view name() const override { return "record"; }
  absl::Status Run(CallContext& call) override;
  std::string ToString() const override;

 private:
  const FunctionMetadata& function_;
};

// Returns the gradient edge of `argument`. `gradient_sizes`: of the gradient of a leaf, if not those of the leaf.
absl::StatusOr<autograd::Edge> GradientEdgeOf(const CallContext& call, const Variable& argument,
                                              const std::optional<SymIntVector>& gradient_sizes);

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_STAGES_RECORD_H_
