// SPDX-License-Identifier: Apache-2.0

// Calls of a session's functions: one at a time.
#ifndef COTAN_CAPI_SESSION_USE_H_
#define COTAN_CAPI_SESSION_USE_H_

#include <atomic>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "capi/guard.h"
#include "capi/handles.h"
#include "include/cotan.h"

namespace cotan::capi {

// Marks a session as used during its lifetime, unless it is used already.
class SessionUse {
 public:
  explicit SessionUse(cotan_session& session)
      : session_(session), is_first_(!session.in_use.test_and_set(std::memory_order_acquire)) {}
  SessionUse(const SessionUse&) = delete;
  SessionUse& operator=(const SessionUse&) = delete;
  ~SessionUse() {
    if (is_first_) session_.in_use.clear(std::memory_order_release);
  }

  // FailedPrecondition: another call uses the session.
  absl::Status status() const {
    if (is_first_) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "another call uses the session: it is used by one thread at a time, and not by handlers of its effects");
  }

 private:
  cotan_session& session_;
  const bool is_first_;
};

// Calls `body`, which returns an absl::Status, as Guarded() does, while no other call uses the session.
template <typename Body>
cotan_status WithSession(const char* function, cotan_session* session, Body body) noexcept {
  return Guarded(function, [&]() -> absl::Status {
    COTAN_RETURN_IF_ERROR(CheckNotNull(session, "session"));
    const SessionUse use(*session);
    COTAN_RETURN_IF_ERROR(use.status());
    return body(*session);
  });
}

}  // namespace cotan::capi

#endif  // COTAN_CAPI_SESSION_USE_H_
