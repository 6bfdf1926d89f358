// SPDX-License-Identifier: Apache-2.0

// Decompositions of matrices and solves with them.
#ifndef COTAN_KERNELS_CPU_LINEAR_ALGEBRA_LINEAR_ALGEBRA_H_
#define COTAN_KERNELS_CPU_LINEAR_ALGEBRA_LINEAR_ALGEBRA_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu {

// Factory of LinearAlgebra for f32 and f64, with any strides. Each matrix of the batch is copied to the scratch as f64,
// computed there by one thread, and rounded once. Results do not depend on the thread count.
// InvalidArgument: from CheckOp(). Run() of an LU_SOLVE returns it for a pivot outside [1, N].
absl::StatusOr<std::unique_ptr<Kernel>> MakeLinearAlgebra(const KernelRequest& request);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_LINEAR_ALGEBRA_LINEAR_ALGEBRA_H_
