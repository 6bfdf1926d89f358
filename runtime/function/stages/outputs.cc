// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/outputs.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/layout.h"
#include "base/status_macros.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/autograd/node.h"
#include "runtime/function/core/compiled_backward.h"
#include "runtime/function/core/returned_values.h"
#include "runtime/function/stages/wrap_results.h"

namespace cotan {
namespace {

using Output = OutputsStage::Output;

// --- creation ----------------------------------------------------------------

// Returns the tangent of output `output`; -1: none.
int TangentOf(const FunctionMetadata& function, int output) {
  const ForwardTensor source = {ForwardTensor::Kind::kOutput, output};
  const std::vector<ForwardTensor>& sources = function.program_metadata.derived().tangent_sources;
  const auto found = std::find(sources.begin(), sources.end(), source);
  return found == sources.end() ? -1 : static_cast<int>(found - sources.begin());
}

// Sets kind and index of an output that is an input or aliases an input or an intermediate.
void SetBase(const FunctionMetadata& function, const OutputAliasInfo& info, Output& output) {
  using Kind = Output::Kind;
  output.index = *info.base_index;
  switch (info.output_type) {
    case OutputType::kIsInput:
      output.kind = Kind::kIsInput;
      break;
    case OutputType::kAliasOfInput:
      output.kind = Kind::kViewOfInput;
      break;
    case OutputType::kAliasOfIntermediateBaseIsUserOutput:
      output.kind = Kind::kViewOfOutput;
      break;
    default:
      output.kind = Kind::kViewOfBase;
      output.index = function.returned.of_bases[static_cast<size_t>(*info.base_index)];
  }
}

Output OutputOf(const FunctionMetadata& function, int i) {
  using Kind = Output::Kind;
  const OutputAliasInfo& info = function.metadata.output(i);
  Output output;
  output.output = i;
  output.requires_grad = info.requires_grad;
  output.under_no_grad = info.requires_grad && !info.requires_grad_for_backward;
  output.not_a_view = info.not_a_view;
  if (!info.is_tensor()) {
    output.scalar = *info.scalar;
    return output;
  }
  output.steps = info.view_steps;
  if (output.steps.empty()) output.geometry = info.geometry;
  if (info.shared_storage.has_value() && IsReturnedElsewhere(info)) {
    const bool is_input = info.shared_storage->owner == SharedStorage::Owner::kInput;
    output.index = info.shared_storage->index;
    output.kind = info.shared_storage->is_detached       ? Kind::kSharesInputStorage
                  : !info.shared_storage->is_same_tensor ? Kind::kViewOfInput
                  : is_input                             ? Kind::kIsInput
                                                         : Kind::kSameOutput;
    if (output.kind != Kind::kSharesInputStorage) return output;
    output.tangent = TangentOf(function, i);
    if (info.non_alias_view.has_value()) output.creation = ViewCreationOf(*info.non_alias_view);
    return output;
  }
  if (IsFreshMemory(info.output_type)) {
    output.kind = Kind::kReturned;
    output.index = function.returned.of_outputs[static_cast<size_t>(i)];
    return output;
  }
  SetBase(function, info, output);
  return output;
}

// Returns the metadata mutation before which an output that is a view of its input, given by the geometry in the
// storage, must be taken; -1: none. Not for leaves, which have no grad_fn that leads to the old metadata.
int MutationAfterView(const FunctionMetadata& function, const Output& output) {
  if (output.kind != Output::Kind::kViewOfInput || !output.requires_grad) return -1;
  const bool is_placed = output.steps.empty() ? output.geometry.has_value()
                                              : std::holds_alternative<view::AsStrided>(output.steps.front());
  if (!is_placed) return -1;
  const InputAliasInfo& info = function.metadata.input(output.index);
  if (info.mutates_data || info.is_leaf) return -1;
  const std::vector<MetadataMutation>& mutations = function.mutations.metadata;
  for (size_t i = 0; i < mutations.size(); ++i) {
    if (mutations[i].input == function.OriginalOf(output.index)) return static_cast<int>(i);
  }
  return -1;
}

// Returns the outputs by index.
std::vector<Output> OutputsOf(const FunctionMetadata& function) {
  std::vector<Output> outputs;
  for (int i = 0; i < function.metadata.num_outputs(); ++i) {
    outputs.push_back(OutputOf(function, i));
    outputs.back().before = MutationAfterView(function, outputs.back());
  }
  return outputs;
}

// --- calls -------------------------------------------------------------------

absl::StatusOr<FunctionResult> ScalarResult(const Output& output, const CallContext& call) {
  if (const auto* size = std::get_if<SymInt>(&output.scalar)) {
    COTAN_ASSIGN_OR_RETURN(const int64_t value, size->Evaluate(call.symbols()));
    return FunctionResult(value);
  }
  if (const auto* value = std::get_if<bool>(&output.scalar)) return FunctionResult(*value);
  if (const auto* value = std::get_if<int64_t>(&output.scalar)) return FunctionResult(*value);
  if (const auto* value = std::get_if<double>(&output.scalar)) return FunctionResult(*value);
  if (const auto* value = std::get_if<std::string>(&output.scalar)) return FunctionResult(*value);
  return FunctionResult(NoneValue());
}

absl::StatusOr<Variable> ApplyView(const Output& output, const CallContext& call, const Variable& base) {
  if (!output.geometry.has_value()) return base.View(output.steps, call.symbols());
  COTAN_ASSIGN_OR_RETURN(const StridedLayout layout, EvaluateLayout(*output.geometry, call.symbols()));
  return base.AsStrided(layout);
}

// Replays the output's views on `base` (gen_alias_from_base() in functional_utils.py).
absl::StatusOr<Variable> Replay(const Output& output, const CallContext& call, const Variable& base) {
  // The traced function may have enabled gradients itself.
  const bool enabled = GradMode::enabled() || (call.in_traced_mode && output.requires_grad);
  const GradModeGuard mode(enabled && !output.under_no_grad);
  // A detached output must not evaluate the grad_fn of `base`, which may fail for a stale view.
  const bool is_detached = base.requires_grad() && !output.requires_grad;
  COTAN_ASSIGN_OR_RETURN(Variable view, ApplyView(output, call, is_detached ? base.Detach() : base));
  if (view.is_view() && output.not_a_view) view = view.Detach();
  if (!view.requires_grad() && output.requires_grad && call.in_traced_mode) {
    COTAN_RETURN_IF_ERROR(view.RequiresGrad(true));
  }
  return view;
}

// Returns an output in the storage of an argument that is not a differentiable view of it.
absl::StatusOr<Variable> InArgument(const Output& output, const CallContext& call, const Variable& argument) {
  Variable made;
  {
    const GradModeGuard no_grad(false);
    COTAN_ASSIGN_OR_RETURN(made, ApplyView(output, call, argument));
  }
  std::shared_ptr<autograd::Node> node = call.is_recorded && output.tangent >= 0 ? call.node : nullptr;
  if (!output.creation.has_value()) {
    made = argument.DetachAs(made.tensor());
    if (node != nullptr) made.SetHistory(std::move(node), output.tangent);
    return made;
  }
  Variable base = argument.DetachAs(made.tensor());
  if (node != nullptr) base.SetHistory(node, output.tangent);
  made = base.ViewAs(made.tensor(), ViewCreationNow(*output.creation));
  if (node != nullptr) made.SetHistory(std::move(node), output.tangent);
  return made;
}

absl::StatusOr<FunctionResult> MakeOutput(const Output& output, const CallContext& call) {
  using Kind = Output::Kind;
  const auto at = static_cast<size_t>(output.index);
  switch (output.kind) {
    case Kind::kScalar:
      return ScalarResult(output, call);
    case Kind::kReturned:
      return FunctionResult(call.returned[at]);
    case Kind::kIsInput:
      return FunctionResult(*call.inputs[at]);
    case Kind::kSameOutput:
      return FunctionResult((*call.outputs)[at]);
    case Kind::kViewOfInput: {
      const Variable& input =
          output.before < 0 ? *call.inputs[at] : call.metadata_mutated_inputs[static_cast<size_t>(output.before)];
      COTAN_ASSIGN_OR_RETURN(Variable view, Replay(output, call, input));
      return FunctionResult(std::move(view));
    }
    case Kind::kSharesInputStorage: {
      COTAN_ASSIGN_OR_RETURN(Variable made, InArgument(output, call, *call.inputs[at]));
      return FunctionResult(std::move(made));
    }
    case Kind::kViewOfBase: {
      COTAN_ASSIGN_OR_RETURN(Variable view, Replay(output, call, call.returned[at]));
      return FunctionResult(std::move(view));
    }
    case Kind::kViewOfOutput: {
      COTAN_ASSIGN_OR_RETURN(Variable view, Replay(output, call, std::get<Variable>((*call.outputs)[at])));
      return FunctionResult(std::move(view));
    }
  }
  return absl::InternalError("unknown output kind");
}

}  // namespace

std::unique_ptr<OutputsStage> OutputsStage::Create(const FunctionMetadata& function) {
  using Kind = Output::Kind;
  const std::vector<Output> by_index = OutputsOf(function);
  if (by_index.empty()) return nullptr;
  // Order: an output that is built from another output comes after that.
  const auto rank = [&by_index](const Output& output) {
    const Output* from = &output;
    int steps = 0;
    for (; from->kind == Kind::kViewOfOutput || from->kind == Kind::kSameOutput; ++steps) {
      from = &by_index[static_cast<size_t>(from->index)];
    }
    return steps;
  };
  std::vector<Output> outputs = by_index;
  std::stable_sort(outputs.begin(), outputs.end(),
                   [&rank](const Output& a, const Output& b) { return rank(a) < rank(b); });
  return std::make_unique<OutputsStage>(function, std::move(outputs));
}

absl::Status OutputsStage::Run(CallContext& call) {
  for (const Output& output : outputs_) {
    COTAN_ASSIGN_OR_RETURN((*call.outputs)[static_cast<size_t>(output.output)], MakeOutput(output, call));
  }
  return absl::OkStatus();
}

std::string OutputsStage::Describe(const Output& output) const {
  using Kind = Output::Kind;
  switch (output.kind) {
    case Kind::kScalar:
      return "a value";
    case Kind::kReturned:
      return "new";
    case Kind::kSameOutput:
      return absl::StrCat("is output ", output.index);
    case Kind::kIsInput:
      return absl::StrCat("is ", function_.input(output.index).name);
    case Kind::kViewOfInput:
      return absl::StrCat("a view of ", function_.input(output.index).name);
    case Kind::kViewOfBase:
      return "a view of an intermediate";
    case Kind::kViewOfOutput:
      return absl::StrCat("a view of output ", output.index);
    case Kind::kSharesInputStorage:
      return absl::StrCat("in the memory of ", function_.input(output.index).name);
  }
  return "unknown";
}

std::string OutputsStage::ToString() const {
  std::vector<std::string> parts;
  for (const Output& output : outputs_) parts.push_back(absl::StrCat("output ", output.output, " ", Describe(output)));
  return absl::StrJoin(parts, ", ");
}

std::vector<bool> HaveViewsWithOldMetadata(const FunctionMetadata& function) {
  std::vector<bool> have_views(function.mutations.metadata.size());
  for (const Output& output : OutputsOf(function)) {
    if (output.before >= 0) have_views[static_cast<size_t>(output.before)] = true;
  }
  return have_views;
}

}  // namespace cotan
