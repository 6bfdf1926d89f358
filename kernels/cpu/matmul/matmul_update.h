// SPDX-License-Identifier: Apache-2.0

// A matrix product with a small k that feeds an optimizer update (update_chain.h), in one pass: the product
// stays in registers.
#ifndef COTAN_KERNELS_CPU_MATMUL_MATMUL_UPDATE_H_
#define COTAN_KERNELS_CPU_MATMUL_MATMUL_UPDATE_H_

#include <memory>

#include "kernels/api/expr_program.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu {

// Returns the kernel of a matmul op with an epilogue, or null if it does not cover the op. The op has passed
// CheckOp(); `epilogue` is its resolved expression. Covered are f32 matrices whose rows are dense in all
// operands but input 0, with an epilogue that is an update chain, on a processor with AVX-512. Results are
// bitwise equal for any thread count.
std::unique_ptr<Kernel> MakeMatmulUpdate(const KernelRequest& request, const ExprProgram& epilogue);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_MATMUL_MATMUL_UPDATE_H_
