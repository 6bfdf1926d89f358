// SPDX-License-Identifier: Apache-2.0

#include "runtime/execution/running_handler.h"

#include "absl/strings/str_cat.h"

namespace cotan {
namespace {

thread_local const RunningHandler* innermost = nullptr;

}  // namespace

RunningHandler::RunningHandler(const EffectHandlers* handlers) : handlers_(handlers), outer_(innermost) {
  innermost = this;
}

RunningHandler::~RunningHandler() { innermost = outer_; }

absl::Status RunningHandler::CheckNone(const EffectHandlers* handlers, absl::string_view action) {
  for (const RunningHandler* running = innermost; running != nullptr; running = running->outer_) {
    if (running->handlers_ != handlers) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("an effect handler may not ", action,
                     ": a method of this session has called it. Use another session, or wait until the call returns"));
  }
  return absl::OkStatus();
}

}  // namespace cotan
