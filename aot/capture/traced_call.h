// SPDX-License-Identifier: Apache-2.0

// Finds out why an op fails while it is traced: eager mode fails as well, or only the traced call does, as
// it reads the content of tensors.
#ifndef COTAN_AOT_CAPTURE_TRACED_CALL_H_
#define COTAN_AOT_CAPTURE_TRACED_CALL_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstddef>

#include "aot/capture/recorder.h"

namespace cotan::aot {

// A call of an op by a traced function; finds out why it fails. Not copyable.
class TracedCall {
 public:
  // Keeps the op's arguments, which the call pops from the stack. `recorder` and `op` must outlive the
  // object.
  TracedCall(Recorder& recorder, const c10::OperatorHandle& op, const torch::jit::Stack& stack);
  ~TracedCall();
  TracedCall(const TracedCall&) = delete;
  TracedCall& operator=(const TracedCall&) = delete;

  // Must be called when the call threw. Reports the op as unsupported if it succeeds on plain tensors of
  // the same content but fails on traced ones even without autograd.
  void ReportIfOnlyTracingFails();

 private:
  Recorder& recorder_;
  const c10::OperatorHandle& op_;
  const torch::jit::Stack arguments_;
  const size_t diagnostics_before_;
  const c10::OperatorHandle* const caller_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_TRACED_CALL_H_
