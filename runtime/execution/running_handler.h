// SPDX-License-Identifier: Apache-2.0

// Which effect handlers run on this thread. A handler may call other sessions, and read the states of its own, which
// are those before the call; a method of its own session would overwrite the memory of the steps that run.
#ifndef COTAN_RUNTIME_EXECUTION_RUNNING_HANDLER_H_
#define COTAN_RUNTIME_EXECUTION_RUNNING_HANDLER_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace cotan {

class EffectHandlers;  // runtime/execution/effects.h

// Notes, for its lifetime, that one of `handlers` runs on this thread. `handlers` identifies a session.
class RunningHandler {
 public:
  explicit RunningHandler(const EffectHandlers* handlers);
  ~RunningHandler();
  RunningHandler(const RunningHandler&) = delete;
  RunningHandler& operator=(const RunningHandler&) = delete;

  // FailedPrecondition: one of `handlers` runs on this thread; the message says that it may not `action` ("run a
  // method").
  static absl::Status CheckNone(const EffectHandlers* handlers, absl::string_view action);

 private:
  const EffectHandlers* const handlers_;
  const RunningHandler* const outer_;  // of another session, whose handler has called this one
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_EXECUTION_RUNNING_HANDLER_H_
