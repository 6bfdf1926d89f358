// SPDX-License-Identifier: Apache-2.0

// Access to the internals of a session, for the runtime and its tests.
#ifndef COTAN_RUNTIME_SESSION_SESSION_ACCESS_H_
#define COTAN_RUNTIME_SESSION_SESSION_ACCESS_H_

#include <memory>

#include "runtime/session/session.h"
#include "runtime/session/session_core.h"

namespace cotan {

// Returns the states, arena and target of a session, which functions share with it.
const std::shared_ptr<SessionCore>& SessionCoreOf(const Session& session);

}  // namespace cotan

#endif  // COTAN_RUNTIME_SESSION_SESSION_ACCESS_H_
