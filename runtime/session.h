// SPDX-License-Identifier: Apache-2.0

// Public header: programs, and sessions that own their states and run their methods (cotan::Program,
// cotan::Session).
#ifndef COTAN_RUNTIME_SESSION_H_
#define COTAN_RUNTIME_SESSION_H_

#include "runtime/session/session.h"  // IWYU pragma: export

#endif  // COTAN_RUNTIME_SESSION_H_
