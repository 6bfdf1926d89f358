// SPDX-License-Identifier: Apache-2.0

// A blocked matrix product without a library.
#ifndef COTAN_KERNELS_CPU_PORTABLE_PORTABLE_GEMM_H_
#define COTAN_KERNELS_CPU_PORTABLE_PORTABLE_GEMM_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/matmul/matmul_geometry.h"

namespace cotan::cpu {

// Returns the bytes of the buffer that PortableGemm() packs into.
size_t PortableGemmBytes(size_t element_size);

// Computes c = a b, or c += a b if `adds`, where a is [m, k], b is [k, n] and c is [m, n] with dense rows
// `c_row` elements apart. T is float, double, int32_t or int64_t. `buffer` has PortableGemmBytes(sizeof(T))
// bytes. Runs on one thread; each element of c is summed in the order of k for any m and n.
template <typename T>
void PortableGemm(int64_t m, int64_t n, int64_t k, const T* a, MatrixStrides a_strides, const T* b,
                  MatrixStrides b_strides, T* c, int64_t c_row, bool adds, void* buffer);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_PORTABLE_PORTABLE_GEMM_H_
