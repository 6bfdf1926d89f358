// SPDX-License-Identifier: Apache-2.0

// The reference kernel of expressions, one element at a time.
#ifndef COTAN_KERNELS_REFERENCE_EXPR_H_
#define COTAN_KERNELS_REFERENCE_EXPR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"

namespace cotan::reference {

// Prepares an expression kernel (a KernelFactory). Each instruction is computed for the whole domain in
// double or int64 and rounded to its dtype before the next instruction. Errors as ResolveExpr().
absl::StatusOr<std::unique_ptr<Kernel>> MakeExpr(const KernelRequest& request);

}  // namespace cotan::reference

#endif  // COTAN_KERNELS_REFERENCE_EXPR_H_
