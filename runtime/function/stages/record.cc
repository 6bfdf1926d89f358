// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/record.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/layout.h"
#include "base/status_macros.h"
#include "runtime/function/core/compiled_backward.h"

namespace cotan {

std::unique_ptr<RecordStage> RecordStage::Create(const FunctionMetadata& function) {
  return function.makes_node() ? std::make_unique<RecordStage>(function) : nullptr;
}

absl::Status RecordStage::Run(CallContext& call) {
  if (!call.is_recorded) return absl::OkStatus();
  const BackwardMetadata& backward = function_.backward;
  call.node = std::make_shared<CompiledBackward>(call.core.shared_from_this(), call.symbols());
  for (size_t i = 0; i < backward.gradient_inputs.size(); ++i) {
    const Variable& argument = call.argument(backward.gradient_inputs[i]);
    COTAN_ASSIGN_OR_RETURN(autograd::Edge edge, GradientEdgeOf(call, argument, backward.gradient_sizes[i]));
    call.node->AddEdge(std::move(edge));
  }
  return absl::OkStatus();
}

std::string RecordStage::ToString() const {
  const BackwardMetadata& backward = function_.backward;
  if (!backward.refusal.empty()) return absl::StrCat("no backward: ", backward.refusal);
  if (backward.method < 0) return "no gradients: no input requires grad";
  std::vector<std::string> names;
  for (int argument : backward.gradient_inputs) names.push_back(function_.ArgumentName(argument));
  return absl::StrCat("backward '", function_.program->method(backward.method).name(), "', ", function_.num_tangents(),
                      " tangents, gradients of ", absl::StrJoin(names, ", "));
}

absl::StatusOr<autograd::Edge> GradientEdgeOf(const CallContext& call, const Variable& argument,
                                              const std::optional<SymIntVector>& gradient_sizes) {
  if (!gradient_sizes.has_value()) return argument.GradientEdge();
  DimVector sizes;
  for (const SymInt& size : *gradient_sizes) {
    COTAN_ASSIGN_OR_RETURN(sizes.emplace_back(), size.Evaluate(call.symbols()));
  }
  return argument.GradientEdge(sizes);
}

}  // namespace cotan
