// SPDX-License-Identifier: Apache-2.0

// `cotan bench --trace`: timed calls in the JSON format of Chrome's trace viewer, which Perfetto reads.
#ifndef COTAN_RUNTIME_TOOLS_TRACE_H_
#define COTAN_RUNTIME_TOOLS_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "kernels/api/registry.h"
#include "runtime/execution/program.h"

namespace cotan::tools {

// A call whose steps were timed.
struct TracedCall {
  int64_t start_ns = 0;  // since the first call of the trace
  int64_t duration_ns = 0;
  std::vector<int64_t> step_ns = {};  // by step of the plan, in order
};

// The calls of a method; `names` has one name per step (Session::StepNames()).
struct TracedMethod {
  std::string method;
  std::vector<std::string> names;
  std::vector<TracedCall> calls;
};

// Returns the trace: a thread per method, since calls run on the caller's thread; a slice per call; in it a slice per
// step with its op, source and bytes of operands; and the live bytes of the arena as a counter. Steps run one after
// another, so that each begins where the one before ends; time between them is at the end of the call. Bytes are
// missing if the device groups steps. Methods are those of `program`, planned with `kernels`.
std::string TraceText(const Program& program, absl::Span<const TracedMethod> methods, const KernelRegistry* kernels);

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_TRACE_H_
