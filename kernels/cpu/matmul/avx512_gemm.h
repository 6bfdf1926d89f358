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

// Packing the right matrix pays only if that many rows use it.
inline constexpr int64_t kAvx512GemmRows = 48;

// Returns the kernel of a product under the conditions of ProductMaker, or null if the processor lacks
// AVX-512 or oneDNN is expected to be faster: fewer than `min_rows` rows, or a large left matrix that is stored by
// columns. Each element is summed in the order of k, so results are bitwise equal for any thread count.
std::unique_ptr<Kernel> MakeAvx512Gemm(const MatmulGeometry& geometry, Addend addend, int threads,
                                       int64_t min_rows = kAvx512GemmRows);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_MATMUL_AVX512_GEMM_H_
