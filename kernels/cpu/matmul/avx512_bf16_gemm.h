// SPDX-License-Identifier: Apache-2.0

// Batches of small matrix products of bf16 for processors with AVX512_BF16, without a library: those of attention,
// whose matrices have the strides of heads in a packed projection.
#ifndef COTAN_KERNELS_CPU_MATMUL_AVX512_BF16_GEMM_H_
#define COTAN_KERNELS_CPU_MATMUL_AVX512_BF16_GEMM_H_

#include <memory>

#include "kernels/api/kernel.h"
#include "kernels/cpu/matmul/matmul_geometry.h"
#include "kernels/cpu/matmul/matmul_steps.h"

namespace cotan::cpu {

// Returns the kernel of a product under the conditions of ProductMaker, or null if this one is not the faster one, or
// not for the product: the processor lacks AVX512_BF16, there is an addend or no batch, k is odd, or the matrices do
// not fit in cache. Each element is summed in f32, in the order of pairs of k, so results are bitwise equal for any
// thread count.
std::unique_ptr<Kernel> MakeAvx512Bf16Gemm(const MatmulGeometry& geometry, Addend addend, int threads);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_MATMUL_AVX512_BF16_GEMM_H_
