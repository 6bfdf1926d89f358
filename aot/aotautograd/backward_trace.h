// SPDX-License-Identifier: Apache-2.0

// Traces the backward of a joint graph (AOTAutograd: create_joint).
#ifndef COTAN_AOT_AOTAUTOGRAD_BACKWARD_TRACE_H_
#define COTAN_AOT_AOTAUTOGRAD_BACKWARD_TRACE_H_

#include "absl/status/status.h"
#include "aot/aotautograd/joint_trace.h"

namespace cotan::aot {

// Adds tangents, the backward and its outputs to the graph after TraceForward(), if there is a
// backward; otherwise corrects is_train of the metadata. Unsupported constructs are reported to the
// recorder.
absl::Status TraceBackward(JointTrace& trace);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_BACKWARD_TRACE_H_
