// SPDX-License-Identifier: Apache-2.0

// CallOnWorker(): more stack for nested backwards. For this package.
#ifndef COTAN_RUNTIME_AUTOGRAD_WORKER_THREAD_H_
#define COTAN_RUNTIME_AUTOGRAD_WORKER_THREAD_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace cotan::autograd {

// Number of threads of the process that wait for the next call; further ones end after their call.
inline constexpr int kMaxIdleWorkers = 4;

// Calls `call` on another thread with a stack of 8 MiB, waits for it and returns its result. The thread is one that has
// finished an earlier call, or a new one; a thread that waits in a call is not taken, so that calls may nest.
// Thread-local variables are as an earlier call left them. Thread-safe.
// ResourceExhausted: a new thread is needed and cannot be created.
absl::Status CallOnWorker(absl::FunctionRef<absl::Status()> call);

}  // namespace cotan::autograd

#endif  // COTAN_RUNTIME_AUTOGRAD_WORKER_THREAD_H_
