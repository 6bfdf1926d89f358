// SPDX-License-Identifier: Apache-2.0

// Traces the forward of a joint graph.
#ifndef COTAN_AOT_AOTAUTOGRAD_FORWARD_TRACE_H_
#define COTAN_AOT_AOTAUTOGRAD_FORWARD_TRACE_H_

#include "absl/status/status.h"
#include "aot/aotautograd/joint_trace.h"
#include "aot/capture/traced_function.h"

namespace cotan::aot {

// Calls the function on the installed proxies and adds the outputs of the forward to the graph: data
// mutations, results, intermediate bases. Unsupported constructs are reported to the recorder.
// InvalidArgument: the function returns or aliases differently than in the first run; with kLoss,
// those of CheckLoss(); those of Analyze().
absl::Status TraceForward(const TensorFunction& function, JointTrace& trace);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_FORWARD_TRACE_H_
