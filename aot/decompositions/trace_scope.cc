// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/trace_scope.h"

#include <ATen/Parallel.h>

#include "aot/capture/dispatch_keys.h"
#include "aot/capture/recorder.h"
#include "aot/decompositions/rewrites.h"

namespace cotan::aot {

void RegisterTracing() {
  RegisterRecorder();
  RegisterRewrites();
}

TraceScope::TraceScope(bool grad_enabled)
    : threads_(at::get_num_threads()), keys_(kTracingKeys), views_(true), grad_mode_(grad_enabled) {
  RegisterTracing();
  at::set_num_threads(1);
}

TraceScope::~TraceScope() { at::set_num_threads(threads_); }

}  // namespace cotan::aot
