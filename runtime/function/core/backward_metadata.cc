// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/core/backward_metadata.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/function/core/function_metadata.h"
#include "runtime/session/tangent_flags.h"
#include "serialization/schema/expr_inputs.h"
#include "serialization/schema/field.h"

namespace cotan {
namespace {

using serialization::Method;

absl::StatusOr<std::vector<std::optional<SymIntVector>>> GradientSizes(const FunctionMetadata& function,
                                                                       const Method& backward,
                                                                       const std::vector<int>& gradient_inputs) {
  const Method& forward = function.method_proto();
  std::vector<std::optional<SymIntVector>> sizes(gradient_inputs.size());
  for (size_t m = 0; m < function.method_arguments.size(); ++m) {
    for (size_t i = 0; i < gradient_inputs.size(); ++i) {
      if (gradient_inputs[i] != function.method_arguments[m]) continue;
      const auto& read = forward.values(static_cast<int>(forward.inputs(static_cast<int>(m)))).type().sizes();
      const uint32_t gradient = backward.outputs(static_cast<int>(i));
      const auto& made = backward.values(static_cast<int>(gradient)).type().sizes();
      if (std::equal(made.begin(), made.end(), read.begin(), read.end())) continue;
      COTAN_ASSIGN_OR_RETURN(sizes[i], ParseSymInts("type.sizes", made));
    }
  }
  return sizes;
}

// Computes depends_on by a forward pass over the backward's ops, in expressions by output, plus the recorded structural
// tangents. The tangents follow `num_saved` inputs.
std::vector<std::vector<bool>> Dependencies(const Method& backward, size_t num_saved, size_t num_tangents) {
  std::vector<std::vector<bool>> of_value(static_cast<size_t>(backward.values_size()), std::vector<bool>(num_tangents));
  for (size_t t = 0; t < num_tangents; ++t) of_value[backward.inputs(static_cast<int>(num_saved + t))][t] = true;
  for (const serialization::Op& op : backward.ops()) {
    std::vector<uint32_t> all(static_cast<size_t>(op.inputs_size()));
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint32_t>(i);
    std::vector<std::vector<uint32_t>> inputs(static_cast<size_t>(op.outputs_size()), all);
    if (op.has_expr()) inputs = InputsOfOutputs(op.expr());
    for (int output = 0; output < op.outputs_size(); ++output) {
      std::vector<bool> depends(num_tangents);
      for (const uint32_t input : inputs[static_cast<size_t>(output)]) {
        const std::vector<bool>& of_input = of_value[op.inputs(static_cast<int>(input))];
        for (size_t t = 0; t < num_tangents; ++t) depends[t] = depends[t] || of_input[t];
      }
      of_value[op.outputs(output)] = std::move(depends);
    }
  }
  std::vector<std::vector<bool>> depends_on;
  for (uint32_t output : backward.outputs()) depends_on.push_back(of_value[output]);
  for (const serialization::StructuralTangents& idle : backward.structural_tangents()) {
    for (uint32_t tangent : idle.tangents()) {
      if (tangent < num_tangents) depends_on[idle.gradient()][tangent] = true;
    }
  }
  return depends_on;
}

// Returns computed_from; empty if no result is computed from another one.
std::vector<std::vector<int>> ComputedFrom(const Method& forward, size_t num_tangents) {
  std::vector<std::vector<int>> computed_from;
  for (const serialization::ResultDependencies& entry : forward.result_dependencies()) {
    if (entry.result() >= num_tangents) continue;
    computed_from.resize(num_tangents);
    computed_from[entry.result()].assign(entry.sources().begin(), entry.sources().end());
  }
  return computed_from;
}

// Returns whether a saved value may share the memory of an argument, of a result or of another saved value.
bool IsSeenElsewhere(const Method& forward, uint32_t value) {
  const auto updates = [value](const serialization::InputUpdate& update) { return update.value() == value; };
  return std::count(forward.outputs().begin(), forward.outputs().end(), value) != 1 ||
         std::count(forward.inputs().begin(), forward.inputs().end(), value) != 0 ||
         std::any_of(forward.input_updates().begin(), forward.input_updates().end(), updates);
}

std::vector<int> DonatedValues(const FunctionMetadata& function) {
  std::vector<int> donated;
  const std::optional<SavedForBackward>& saved = function.program_metadata.facts().saved;
  if (!saved.has_value()) return donated;
  const Method& forward = function.method_proto();
  for (int i : saved->donated) {
    if (!IsSeenElsewhere(forward, forward.outputs(function.first_saved + i))) donated.push_back(i);
  }
  return donated;
}

// Makes the edges of a node whose backward is refused: one for each argument that requires grad.
void AddRefusal(const FunctionMetadata& function, BackwardMetadata& made) {
  made.refusal = function.method_proto().backward_refusal();
  for (int i = 0; i < function.program_metadata.num_inputs(); ++i) {
    const InputAliasInfo& info = function.program_metadata.input(i);
    if (info.requires_grad_at_entry.value_or(info.requires_grad)) made.gradient_inputs.push_back(i);
  }
  made.gradient_sizes.resize(made.gradient_inputs.size());
}

// Adds the states that the method reads, without the ones that are listed already.
void AddReadStates(const Method& method, std::vector<int>& states) {
  for (const serialization::StateRead& read : method.state_reads()) {
    const int state = static_cast<int>(read.state());
    if (std::find(states.begin(), states.end(), state) == states.end()) states.push_back(state);
  }
}

absl::StatusOr<BackwardMetadata::Differentiable> DifferentiableOf(const FunctionMetadata& function) {
  BackwardMetadata::Differentiable made;
  const Program& program = *function.program;
  if (function.method_proto().differentiable_backward().empty()) return made;
  COTAN_ASSIGN_OR_RETURN(made.method, program.FindMethod(function.method_proto().differentiable_backward()));
  const Method& method = program.method(made.method);
  AddReadStates(method, made.read_states);
  if (!method.backward_method().empty()) {
    COTAN_ASSIGN_OR_RETURN(const int backward, program.FindMethod(method.backward_method()));
    AddReadStates(program.method(backward), made.read_states);
  }
  int num_given = function.num_arguments() + function.num_tangents();
  made.takes_flags = function.num_tangents() > 1 && method.inputs_size() - num_given >= function.num_tangents();
  if (made.takes_flags) num_given += function.num_tangents();
  if (method.inputs_size() == num_given) return made;
  const auto& states = program.artifact().states();
  const auto rng = std::find_if(states.begin(), states.end(), [](const serialization::State& state) {
    return state.role() == serialization::State::RNG;
  });
  if (method.inputs_size() != num_given + 1 || rng == states.end()) {
    return function.Unsupported(absl::StrCat("has a differentiable backward with ", method.inputs_size(),
                                             " inputs, for ", num_given, " arguments, tangents and their flags"));
  }
  made.rng_state = static_cast<int>(rng - states.begin());
  return made;
}

}  // namespace

absl::StatusOr<BackwardMetadata> BackwardMetadata::Create(const FunctionMetadata& function) {
  const Method& forward = function.method_proto();
  BackwardMetadata made;
  made.donated = DonatedValues(function);
  if (!forward.backward_refusal().empty()) {
    AddRefusal(function, made);
    return made;
  }
  if (forward.backward_method().empty() || !function.metadata.facts().is_train) return made;
  COTAN_ASSIGN_OR_RETURN(made.method, function.program->FindMethod(forward.backward_method()));
  const Method& backward = function.program->method(made.method);
  if (backward.gradient_inputs().empty() && !backward.outputs().empty()) {
    return function.Unsupported(
        absl::StrCat("has a backward with 0 gradient_inputs for ", backward.outputs_size(), " outputs"));
  }
  const int num_read = function.num_saved + function.num_tangents();
  if (backward.inputs_size() < num_read) {
    return function.Unsupported(absl::StrCat("has a backward with ", backward.inputs_size(), " inputs, for ", num_read,
                                             " saved values and tangents"));
  }
  made.takes_flags = TakesTangentFlags(backward, function.num_saved, function.num_tangents());
  made.takes_host_values = std::any_of(backward.inputs().begin(), backward.inputs().end(), [&](uint32_t input) {
    return backward.values(static_cast<int>(input)).on_host();
  });
  made.gradient_inputs.assign(backward.gradient_inputs().begin(), backward.gradient_inputs().end());
  COTAN_ASSIGN_OR_RETURN(made.gradient_sizes, GradientSizes(function, backward, made.gradient_inputs));
  for (const serialization::StateRead& read : backward.state_reads()) {
    made.read_states.push_back(static_cast<int>(read.state()));
  }
  for (const serialization::InputUpdate& update : backward.input_updates()) {
    made.written_values.push_back(static_cast<int>(update.input()));
  }
  for (const serialization::StateUpdate& update : backward.state_updates()) {
    made.updated_states.push_back(static_cast<int>(update.state()));
  }
  const auto is_effect = [](const serialization::Op& op) { return op.has_effect(); };
  made.has_effects = std::any_of(backward.ops().begin(), backward.ops().end(), is_effect);
  made.depends_on =
      Dependencies(backward, static_cast<size_t>(function.num_saved), static_cast<size_t>(function.num_tangents()));
  made.computed_from = ComputedFrom(forward, static_cast<size_t>(function.num_tangents()));
  COTAN_ASSIGN_OR_RETURN(made.differentiable, DifferentiableOf(function));
  return made;
}

int BackwardMetadata::GradientOf(int argument) const {
  const auto found = std::find(gradient_inputs.begin(), gradient_inputs.end(), argument);
  return found == gradient_inputs.end() ? -1 : static_cast<int>(found - gradient_inputs.begin());
}

}  // namespace cotan
