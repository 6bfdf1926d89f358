// SPDX-License-Identifier: Apache-2.0

// Matrix products of bf16 for processors with AMX (kernels/cpu/simd/amx_tiles.h), without a library.
#ifndef COTAN_KERNELS_CPU_MATMUL_AMX_BF16_GEMM_H_
#define COTAN_KERNELS_CPU_MATMUL_AMX_BF16_GEMM_H_

#include <memory>

#include "kernels/api/kernel.h"
#include "kernels/cpu/matmul/matmul_geometry.h"
#include "kernels/cpu/matmul/matmul_steps.h"

namespace cotan::cpu {

// Returns the kernel of a product under the conditions of ProductMaker, or null if HasAmxBf16() is false or a library
// is faster: with one row, or with four or fewer terms of each sum, unless there is a batch. Each element is summed in
// f32, in the order of pairs of k, and rounded once, so results are bitwise equal for any thread count. Subnormal
// numbers count as zeros.
std::unique_ptr<Kernel> MakeAmxBf16Gemm(const MatmulGeometry& geometry, Addend addend, int threads);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_MATMUL_AMX_BF16_GEMM_H_
