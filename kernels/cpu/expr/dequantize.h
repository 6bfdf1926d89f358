// SPDX-License-Identifier: Apache-2.0

// The kernel for expressions that dequantize (dequantization.h): each byte is loaded once, and nothing is stored but
// the result.
#ifndef COTAN_KERNELS_CPU_EXPR_DEQUANTIZE_H_
#define COTAN_KERNELS_CPU_EXPR_DEQUANTIZE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/expr_program.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu::expr {

// Returns the kernel of `program`, the resolved op of `request`, or null if it does not cover the op. Covered are
// dequantizations whose bytes are dense along a run of elements that have one factor, to a row-major result with dense
// rows of groups of runs. The result has the bits of MakeExprWith(), for any thread count. `other` makes the kernel for
// runs in which Dequantization::shift has other values. Errors of `other`.
absl::StatusOr<std::unique_ptr<Kernel>> MakeDequantize(const ExprProgram& program, const KernelRequest& request,
                                                       KernelFactory other);

}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_DEQUANTIZE_H_
