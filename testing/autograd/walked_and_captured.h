// SPDX-License-Identifier: Apache-2.0

// Runs tests of backwards node by node and in a scope of CompiledAutograd.
#ifndef COTAN_TESTING_AUTOGRAD_WALKED_AND_CAPTURED_H_
#define COTAN_TESTING_AUTOGRAD_WALKED_AND_CAPTURED_H_

#include <functional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "runtime/autograd/variable.h"

namespace cotan::testing {

// Runs `program` twice: its backwards are walked, then captured, with nothing captured before. Expects that something
// is captured, and that nothing that could be captured is walked.
void WalkedAndCaptured(absl::FunctionRef<void()> program);

// Returns x after a node whose backward runs `inner` and passes the gradient on.
Variable WithInner(const Variable& x, std::function<absl::Status()> inner);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_AUTOGRAD_WALKED_AND_CAPTURED_H_
