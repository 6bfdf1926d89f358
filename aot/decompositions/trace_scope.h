// SPDX-License-Identifier: Apache-2.0

// The tracing state of a thread.
#ifndef COTAN_AOT_DECOMPOSITIONS_TRACE_SCOPE_H_
#define COTAN_AOT_DECOMPOSITIONS_TRACE_SCOPE_H_

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "aot/capture/one_thread.h"

namespace cotan::aot {

// Registers the kernels of all tracing keys. Idempotent.
void RegisterTracing();

// Within its scope, ops of the thread go through the tracing stack (aot/capture/dispatch_keys.h), the grad
// mode is initially `grad_enabled`, and LibTorch computes on one thread: speed is not critical, as traced models are
// small or run once.
class TraceScope {
 public:
  explicit TraceScope(bool grad_enabled);
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  OneThread one_thread_;
  c10::impl::IncludeDispatchKeyGuard keys_;
  at::functionalization::impl::FunctionalizationReapplyViewsGuard views_;
  c10::AutoGradMode grad_mode_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_DECOMPOSITIONS_TRACE_SCOPE_H_
