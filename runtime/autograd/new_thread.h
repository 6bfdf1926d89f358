// SPDX-License-Identifier: Apache-2.0

// CallOnNewThread(): more stack for nested backwards. For this package.
#ifndef COTAN_RUNTIME_AUTOGRAD_NEW_THREAD_H_
#define COTAN_RUNTIME_AUTOGRAD_NEW_THREAD_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace cotan::autograd {

// Calls `call` on a new thread with a stack of 8 MiB, waits for it and returns its result. Thread-local variables have
// their initial values in the call. ResourceExhausted: the thread cannot be created.
absl::Status CallOnNewThread(absl::FunctionRef<absl::Status()> call);

}  // namespace cotan::autograd

#endif  // COTAN_RUNTIME_AUTOGRAD_NEW_THREAD_H_
