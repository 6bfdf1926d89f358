// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/core/call_context.h"

#include "runtime/autograd/grad_mode.h"
#include "runtime/autograd/hooks.h"

namespace cotan {

CallContext::CallContext(FunctionCore& of)
    : core(of),
      function(of.metadata()),
      inputs(function.inputs.size()),
      bases(static_cast<size_t>(function.num_bases())),
      program_arguments(function.argument_inputs.size()),
      tensors(function.method_arguments.size()),
      results(static_cast<size_t>(function.num_results)),
      new_layouts(function.mutations.metadata.size()),
      grown_inputs(function.mutations.metadata.size()),
      shown_storages(function.mutations.storage.size()),
      returned(function.returned.values.size()),
      metadata_mutated_inputs(function.mutations.metadata.size()) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int state = function.inputs[i].state;
    if (state >= 0) inputs[i] = &core.session().StateVariable(state);
  }
}

bool CallContext::IsTracked(const DataMutation& write) const {
  if (!is_recorded || write.tangent < 0) return false;
  const Variable& target = argument(write.argument);
  if (!target.requires_grad() || !target.is_leaf()) return true;
  // A traced leaf was written through a detached alias. One in place of another value is refused, as in eager mode.
  const int input = function.argument_inputs[static_cast<size_t>(write.argument)];
  return write.has_gradient && input >= 0 && !function.metadata.input(input).is_leaf;
}

bool CallContext::IsTracked(const MetadataMutation& change) const {
  return (GradMode::enabled() || in_traced_mode) && !change.under_no_grad;
}

void CallContext::Clear() {
  wrapped_arguments = {};
  wrapped_outputs = nullptr;
  arguments = {};
  outputs = nullptr;
  flat_arguments.clear();
  for (Variable& base : bases) base = Variable();
  for (Tensor& result : results) autograd::Clear(result);
  for (Variable& variable : returned) variable = Variable();
  for (Tensor& grown : grown_inputs) autograd::Clear(grown);
  for (Tensor& shown : shown_storages) autograd::Clear(shown);
  for (Variable& input : metadata_mutated_inputs) input = Variable();
  mutated_leaf_edges.clear();
  node = nullptr;
  primals.reset();
}

}  // namespace cotan
