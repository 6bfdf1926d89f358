// SPDX-License-Identifier: Apache-2.0

// Products whose right operand an expression computes, block by block.
#ifndef COTAN_KERNELS_CPU_MATMUL_COMPUTED_OPERAND_H_
#define COTAN_KERNELS_CPU_MATMUL_COMPUTED_OPERAND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/computed_operand.h"
#include "kernels/api/kernel.h"
#include "kernels/cpu/matmul/matmul_steps.h"

namespace cotan::cpu {

// Implements ComputedOperandKernels::takes: the conditions of FindOperandBlocks().
bool TakesComputedOperand(const ComputedOperandRequest& request);

// Returns the kernel of a pair that TakesComputedOperand(). Each thread has some columns of the result. It computes a
// block of the operand by a kernel of `expr` and multiplies by a product of `maker`, one after another; the block stays
// in cache. Results are bitwise equal for any thread count, and, if `maker` makes own kernels (avx512_gemm.h,
// portable_gemm.h), equal to those of separate ops. The functions are called before it returns.
//
// InvalidArgument: TakesComputedOperand() is false. Errors of `maker` and `expr`.
absl::StatusOr<std::unique_ptr<Kernel>> MakeComputedOperandProduct(const ComputedOperandRequest& request,
                                                                   const ProductMaker& maker, KernelFactory expr);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_MATMUL_COMPUTED_OPERAND_H_
