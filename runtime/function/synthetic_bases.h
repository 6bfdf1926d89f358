// The stage of a call that makes one tensor of arguments which share memory;
// call_plan.h tells more.
#ifndef COTAN_RUNTIME_FUNCTION_SYNTHETIC_BASES_H_
#define COTAN_RUNTIME_FUNCTION_SYNTHETIC_BASES_H_

#include "absl/status/status.h"

namespace cotan {

class FunctionCore;
struct Call;

// Finds or makes the base of each group; program arguments refer to it from then
// on. After CheckArguments().
// InvalidArgument: the arguments do not lie in memory as they did when traced.
absl::Status FindBases(FunctionCore& core, Call& call);

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_SYNTHETIC_BASES_H_
