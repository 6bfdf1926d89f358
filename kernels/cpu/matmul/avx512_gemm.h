// SPDX-License-Identifier: Apache-2.0

// Matrix products of f32 for processors with AVX-512, without a library.
#ifndef COTAN_KERNELS_CPU_MATMUL_AVX512_GEMM_H_
#define COTAN_KERNELS_CPU_MATMUL_AVX512_GEMM_H_

#include <cstdint>
#include <memory>

#include "kernels/api/kernel.h"
#include "kernels/cpu/matmul/matmul_geometry.h"
#include "kernels/cpu/matmul/matmul_steps.h"

namespace cotan::cpu {

// Returns true if the processor has AVX-512.
bool HasAvx512Gemm();

// Returns the kernel of a product under the conditions of ProductMaker, or null if HasAvx512Gemm() is false. Each
// element is summed in the order of k, so results are bitwise equal for any thread count.
std::unique_ptr<Kernel> MakeAvx512Gemm(const MatmulGeometry& geometry, Addend addend, int threads);

// Returns true if the kernel is expected to be as fast as oneDNN's: not for few terms of each sum, and not for few rows
// and a right matrix that is stored by columns, which must be transposed, unless there is a batch of at least 12 rows.
bool IsFastAvx512Gemm(const MatmulGeometry& geometry);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_MATMUL_AVX512_GEMM_H_
