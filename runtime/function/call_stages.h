// SPDX-License-Identifier: Apache-2.0

// The stages of a call in their order, except FindBases() (synthetic_bases.h).
#ifndef COTAN_RUNTIME_FUNCTION_CALL_STAGES_H_
#define COTAN_RUNTIME_FUNCTION_CALL_STAGES_H_

#include "absl/status/status.h"

namespace cotan {

class FunctionCore;
struct Call;

// A stage corresponds to a part of a wrapper of AOTAutograd (runtime_wrappers.py), which its comment names; call_plan.h
// has a table. Errors: as Function::Call().

// Appends the tensors of wrapper-typed arguments to call.flat_arguments (AOTDispatchSubclassWrapper, arguments).
// InvalidArgument: Call() was used in place of CallWrapped(); the number of arguments, a wrapper type, attributes or
// metadata differ from those traced.
absl::Status FlattenArguments(FunctionCore& core, Call& call);

// Checks the number of arguments, requires_grad, the storages of states and the grad mode (guards of torch.compile; not
// a wrapper). Fills call.inputs, call.in_traced_mode, call.is_recorded, and call.program_arguments except the bases.
// Duplicate inputs are dropped there.
absl::Status CheckArguments(FunctionCore& core, Call& call);

// Checks that duplicate inputs are one tensor, and that a metadata-mutated input is not the same tensor as another
// input (AOTDedupeWrapper).
absl::Status Deduplicate(FunctionCore& core, Call& call);

// Checks that the arguments with tracked writes may be written in place (RuntimeWrapper; there copy_() checks it after
// the call).
absl::Status CheckInPlace(FunctionCore& core, Call& call);

// Prepares the plan, allocates the results and runs the method on plain tensors (AOTDispatchAutograd,
// CompiledFunction.forward; FunctionalizedRngRuntimeWrapper: the RNG state is a state of the session that the method
// updates). Checks first that the storages of metadata-mutated inputs allow the new geometry.
absl::Status RunForward(FunctionCore& core, Call& call);

// Makes leaves of inputs on which the traced function called requires_grad_() (no wrapper: AOTAutograd does not support
// it).
absl::Status MakeNewLeaves(FunctionCore& core, Call& call);

// Creates call.node with edges to the grad_fn of the arguments (AOTDispatchAutograd, CompiledFunction.apply).
absl::Status RecordNode(FunctionCore& core, Call& call);

// Makes Variables of the forward returns, with call.node as grad_fn (AOTDispatchAutograd, CompiledFunction.apply).
absl::Status WrapReturned(FunctionCore& core, Call& call);

// Applies data, metadata and storage mutations to the arguments: copy_, as_strided_, set_, detach_ (RuntimeWrapper, the
// epilogue over mutated_inp_runtime_indices).
absl::Status WriteBack(FunctionCore& core, Call& call);

// Adds the saved values to call.node (AOTDispatchAutograd, ctx.save_for_backward()). Runs after WriteBack(), so that
// the recorded versions are those at the end of the call.
absl::Status SaveForBackward(FunctionCore& core, Call& call);

// Builds the outputs and replays the views of aliasing outputs (RuntimeWrapper, make_output_handler():
// NoopAliasHandler, IsInputHandler, AliasOfInputHandler, AliasOfIntermediateHandler).
absl::Status MakeOutputs(FunctionCore& core, Call& call);

// Builds wrapper-typed results from flat ones (AOTDispatchSubclassWrapper, results).
absl::Status RewrapOutputs(FunctionCore& core, Call& call);

// Sets the grad mode to that at exit of the traced function (RuntimeWrapper, grad_enabled_mutation).
absl::Status SetGradMode(FunctionCore& core, Call& call);

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_CALL_STAGES_H_
