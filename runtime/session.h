// Public header: a program, its states and the calls of its methods (cotan::Program, cotan::Session).
#ifndef COTAN_RUNTIME_SESSION_H_
#define COTAN_RUNTIME_SESSION_H_

#include "runtime/session/session.h"  // IWYU pragma: export

#endif  // COTAN_RUNTIME_SESSION_H_
