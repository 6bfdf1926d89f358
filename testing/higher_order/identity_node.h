// SPDX-License-Identifier: Apache-2.0

// A node of the host program that does something in its backward.
#ifndef COTAN_TESTING_HIGHER_ORDER_IDENTITY_NODE_H_
#define COTAN_TESTING_HIGHER_ORDER_IDENTITY_NODE_H_

#include <functional>

#include "absl/status/status.h"
#include "runtime/autograd/variable.h"

namespace cotan::testing {

// Returns the elements of `x` as the result of a node that gives its tangent on. Each of its backwards, recorded or
// not, calls `run` first, and fails with its error.
Variable IdentityNode(const Variable& x, std::function<absl::Status()> run);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_HIGHER_ORDER_IDENTITY_NODE_H_
