// A product of short sums that goes into an update of parameters, in one pass:
// the product stays in registers.
#ifndef COTAN_KERNELS_CPU_MATMUL_MATMUL_UPDATE_H_
#define COTAN_KERNELS_CPU_MATMUL_MATMUL_UPDATE_H_

#include <memory>

#include "kernels/api/expr_program.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu {

// The kernel of a matmul op with an epilogue, which has passed CheckOp();
// `epilogue` is the resolved one. Null where it does not cover the op: it takes
// matrices of f32, rows of all but input 0 dense, epilogues that are chains
// (update_chain.h), and needs AVX-512. Bitwise equal for any thread count.
std::unique_ptr<Kernel> MakeMatmulUpdate(const KernelRequest& request, const ExprProgram& epilogue);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_MATMUL_MATMUL_UPDATE_H_
