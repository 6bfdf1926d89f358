// What must hold of a thread while it traces.
#ifndef COTAN_AOT_DECOMPOSITIONS_TRACE_SCOPE_H_
#define COTAN_AOT_DECOMPOSITIONS_TRACE_SCOPE_H_

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace cotan::aot {

// Tells LibTorch's dispatcher about the tracing keys; the first call counts.
void RegisterTracing();

// Within its scope, tensors of the thread go through the tracing stack
// (dispatch_keys.h), the grad mode is `grad_enabled` to begin with, and LibTorch
// computes on one thread: sums come out the same on every machine, and traced
// models are small or run once.
class TraceScope {
 public:
  explicit TraceScope(bool grad_enabled);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  int threads_;
  c10::impl::IncludeDispatchKeyGuard keys_;
  at::functionalization::impl::FunctionalizationReapplyViewsGuard views_;
  c10::AutoGradMode grad_mode_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_DECOMPOSITIONS_TRACE_SCOPE_H_
