// SPDX-License-Identifier: Apache-2.0

#include "planning/step_requests.h"

#include <algorithm>

namespace cotan {
namespace {

// Returns true if an output is a state or an argument.
bool WritesLastingMemory(const Schedule& schedule, const ScheduledStep& step) {
  return std::any_of(step.outputs.begin(), step.outputs.end(), [&](const Operand& output) {
    const BufferKind kind = schedule.buffers[static_cast<size_t>(output.buffer)].kind;
    return kind == BufferKind::kState || kind == BufferKind::kInput;
  });
}

}  // namespace

StepRequests::StepRequests(const serialization::Method& method, const Schedule& schedule, const ScheduledStep& step,
                           absl::Span<const int64_t> symbols) {
  for (const Operand& input : step.inputs) inputs_.push_back(SpecOf(input));
  for (const Operand& output : step.outputs) outputs_.push_back(SpecOf(output));
  const bool guarded = WritesLastingMemory(schedule, step);
  if (step.computed != nullptr) {
    AddPair(method, step, symbols, guarded);
    return;
  }
  if (step.members.empty()) {
    requests_.push_back({.op = OpOf(method, step),
                         .inputs = inputs_,
                         .outputs = outputs_,
                         .symbols = symbols,
                         .guarded_outputs = guarded});
    return;
  }
  absl::Span<const TensorSpec> inputs = inputs_;
  absl::Span<const TensorSpec> outputs = outputs_;
  for (const GroupMember& member : step.members) {
    requests_.push_back({.op = member.part != nullptr ? *member.part : method.ops(member.op),
                         .inputs = inputs.subspan(0, static_cast<size_t>(member.num_inputs)),
                         .outputs = outputs.subspan(0, static_cast<size_t>(member.num_outputs)),
                         .symbols = symbols,
                         .guarded_outputs = guarded});
    inputs.remove_prefix(static_cast<size_t>(member.num_inputs));
    outputs.remove_prefix(static_cast<size_t>(member.num_outputs));
  }
}

void StepRequests::AddPair(const serialization::Method& method, const ScheduledStep& step,
                           absl::Span<const int64_t> symbols, bool guarded) {
  const ComputedOperand& computed = *step.computed;
  inputs_.insert(inputs_.begin() + 1, computed.operand);
  outputs_.push_back(computed.value);
  const absl::Span<const TensorSpec> inputs = inputs_;
  const absl::Span<const TensorSpec> outputs = outputs_;
  const size_t product_inputs = inputs.size() - static_cast<size_t>(computed.num_inputs);
  requests_.push_back({.op = OpOf(method, step),
                       .inputs = inputs.first(product_inputs),
                       .outputs = outputs.first(outputs.size() - 1),
                       .symbols = symbols,
                       .guarded_outputs = guarded});
  requests_.push_back({.op = method.ops(computed.op),
                       .inputs = inputs.subspan(product_inputs),
                       .outputs = outputs.last(1),
                       .symbols = symbols});
}

}  // namespace cotan
