// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/trace_scope.h"

#include "aot/capture/dispatch_keys.h"
#include "aot/capture/recorder.h"
#include "aot/decompositions/rewrites.h"

namespace cotan::aot {

void RegisterTracing() {
  RegisterRecorder();
  RegisterRewrites();
}

TraceScope::TraceScope(bool grad_enabled) : keys_(kTracingKeys), views_(true), grad_mode_(grad_enabled) {
  RegisterTracing();
}

}  // namespace cotan::aot
