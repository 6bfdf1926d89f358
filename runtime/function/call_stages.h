// The stages of a call, in their order, but for that of bases (call_bases.h);
// call_plan.h tells what each does.
#ifndef COTAN_RUNTIME_FUNCTION_CALL_STAGES_H_
#define COTAN_RUNTIME_FUNCTION_CALL_STAGES_H_

#include "absl/status/status.h"

namespace cotan {

class FunctionCore;
struct Call;

absl::Status FlattenArguments(FunctionCore& core, Call& call);
absl::Status CheckArguments(FunctionCore& core, Call& call);
absl::Status Deduplicate(FunctionCore& core, Call& call);
absl::Status CheckInPlace(FunctionCore& core, Call& call);
absl::Status RunForward(FunctionCore& core, Call& call);
absl::Status MakeNewLeaves(FunctionCore& core, Call& call);
absl::Status RecordNode(FunctionCore& core, Call& call);
absl::Status WrapReturned(FunctionCore& core, Call& call);
absl::Status WriteBack(FunctionCore& core, Call& call);
absl::Status SaveForBackward(FunctionCore& core, Call& call);
absl::Status MakeOutputs(FunctionCore& core, Call& call);
absl::Status RewrapOutputs(FunctionCore& core, Call& call);
absl::Status SetGradMode(FunctionCore& core, Call& call);

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_CALL_STAGES_H_
