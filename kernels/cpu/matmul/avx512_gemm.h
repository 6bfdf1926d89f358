// Matrix products of f32 in own code for processors with AVX-512.
#ifndef COTAN_KERNELS_CPU_MATMUL_AVX512_GEMM_H_
#define COTAN_KERNELS_CPU_MATMUL_AVX512_GEMM_H_

#include <memory>

#include "kernels/api/kernel.h"
#include "kernels/cpu/matmul/matmul_geometry.h"
#include "kernels/cpu/matmul/matmul_steps.h"

namespace cotan::cpu {

// A product as ProductMaker describes it. Each element is one sum in the order
// of k, so results are bitwise equal for any thread count.
// Null if the processor lacks AVX-512, or where a library is the better choice:
// few rows, or a large left matrix that is stored by columns.
std::unique_ptr<Kernel> MakeWideMatmul(const MatmulGeometry& geometry, Addend addend, int threads);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_MATMUL_AVX512_GEMM_H_
