// SPDX-License-Identifier: Apache-2.0

// Checks of the mutations of a call before its program runs, so that a refused call changes nothing.
#ifndef COTAN_RUNTIME_FUNCTION_STAGES_MUTATION_CHECKS_H_
#define COTAN_RUNTIME_FUNCTION_STAGES_MUTATION_CHECKS_H_

#include "absl/status/status.h"
#include "runtime/function/core/call_context.h"

namespace cotan {

// Computes the new layouts of metadata-mutated inputs, allocates those that grow, and finds the new storages that are
// those of other arguments: call.new_layouts, call.grown_inputs and call.shown_storages. call.executable has been
// prepared. InvalidArgument: an argument has not the elements of its new geometry; the elements that are written there
// overlap another argument or a state; a storage owner has another layout than when traced. FailedPrecondition: the
// argument must not be changed in place. ResourceExhausted: a larger storage cannot be allocated.
absl::Status CheckMutations(CallContext& call);

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_STAGES_MUTATION_CHECKS_H_
