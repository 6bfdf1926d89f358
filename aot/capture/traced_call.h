// Why an op fails while it is traced: eager refuses it, too, or LibTorch cannot run it
// on traced tensors alone, as it reads their content.
#ifndef COTAN_AOT_CAPTURE_TRACED_CALL_H_
#define COTAN_AOT_CAPTURE_TRACED_CALL_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstddef>

#include "aot/capture/recorder.h"

namespace cotan::aot {

// A call of an op by a traced function. Not copyable.
class TracedCall {
 public:
  // Keeps the op's arguments, which the call takes off the stack. `recorder` and `op`
  // outlive it.
  TracedCall(Recorder& recorder, const c10::OperatorHandle& op, const torch::jit::Stack& stack);
  ~TracedCall();
  TracedCall(const TracedCall&) = delete;
  TracedCall& operator=(const TracedCall&) = delete;

  // To be called when the call threw. Refuses the op by its name if plain tensors of the
  // same content are accepted and the failure is not autograd's.
  void RefuseIfOnlyTracingFails();

 private:
  Recorder& recorder_;
  const c10::OperatorHandle& op_;
  const torch::jit::Stack arguments_;
  const size_t refusals_before_;
  const c10::OperatorHandle* const caller_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_TRACED_CALL_H_
