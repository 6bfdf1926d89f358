// SPDX-License-Identifier: Apache-2.0

// CallStage: one step of the calls of a function.
#ifndef COTAN_RUNTIME_FUNCTION_STAGES_CALL_STAGE_H_
#define COTAN_RUNTIME_FUNCTION_STAGES_CALL_STAGE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/function/core/call_context.h"

namespace cotan {

// A stage corresponds to a part of a wrapper of AOTAutograd (runtime_wrappers.py); call_plan.h has a table. It owns the
// data that only it needs, and keeps the memory of its scratch data, but no tensors, between calls. Stages are made by
// Create(), which returns null where the method does not need the stage; the FunctionMetadata must outlive the stage.
class CallStage {
 public:
  CallStage() = default;
  CallStage(const CallStage&) = delete;
  CallStage& operator=(const CallStage&) = delete;
  virtual ~CallStage() = default;

  // Returns the name of the stage in Function::ToString().
  virtual absl::string_view name() const = 0;
  // Reads and changes `call`. An error, as those of Function::Call(), ends the call.
  virtual absl::Status Run(CallContext& call) = 0;
  // Returns the arguments or values that the stage handles: "b is a".
  virtual std::string ToString() const = 0;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_STAGES_CALL_STAGE_H_
