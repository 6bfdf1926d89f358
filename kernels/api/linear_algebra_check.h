// SPDX-License-Identifier: Apache-2.0

// Checks of matrix decompositions and solves.
#ifndef COTAN_KERNELS_API_LINEAR_ALGEBRA_CHECK_H_
#define COTAN_KERNELS_API_LINEAR_ALGEBRA_CHECK_H_

#include "absl/status/status.h"
#include "kernels/api/kernel.h"

namespace cotan::op_check {

// InvalidArgument: the op's function or operands violate program.proto; see CheckOp().
absl::Status CheckLinearAlgebra(const KernelRequest& request);

}  // namespace cotan::op_check

#endif  // COTAN_KERNELS_API_LINEAR_ALGEBRA_CHECK_H_
