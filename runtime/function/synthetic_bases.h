// SPDX-License-Identifier: Apache-2.0

// The "bases" stage of a call: AOTSyntheticBaseWrapper (merge_view_inputs() in runtime_wrappers.py). Arguments that
// share memory are replaced by one synthetic base; the program takes the views of it itself.
#ifndef COTAN_RUNTIME_FUNCTION_SYNTHETIC_BASES_H_
#define COTAN_RUNTIME_FUNCTION_SYNTHETIC_BASES_H_

#include "absl/status/status.h"

namespace cotan {

class FunctionCore;
struct Call;

// Finds or creates the synthetic base of each group in call.bases and sets call.program_arguments to them. Runs after
// CheckArguments(). InvalidArgument: the arguments are not the same views of a common storage as when traced, up to one
// storage offset for the whole group.
absl::Status FindBases(FunctionCore& core, Call& call);

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_SYNTHETIC_BASES_H_
