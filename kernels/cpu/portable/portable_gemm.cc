// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/portable/portable_gemm.h"

#include <algorithm>

#include "kernels/cpu/simd/gemm_core.h"
#include "kernels/cpu/simd/simd.h"

namespace cotan::cpu {
namespace {

// Sizes of the block of b that stays in the second-level cache.
constexpr int64_t kDepth = 256;
constexpr int64_t kColumns = 128;

template <typename T>
COTAN_SIMD_VERSIONS void Multiply(int64_t m, int64_t n, int64_t k, const T* a, const MatrixStrides& a_strides,
                                  const T* b, const MatrixStrides& b_strides, T* c, int64_t c_row, bool adds,
                                  T* panels) {
  for (int64_t column = 0; column < n; column += kColumns) {
    const int64_t columns = std::min(kColumns, n - column);
    for (int64_t begin = 0; begin < k; begin += kDepth) {
      const int64_t depth = std::min(kDepth, k - begin);
      PackPanels(b + begin * b_strides.row + column * b_strides.column, b_strides.row, b_strides.column, depth, columns,
                 panels);
      MultiplyPacked(a + begin * a_strides.column, a_strides.row, a_strides.column, panels, depth, m, columns, depth,
                     c + column, c_row, adds || begin > 0);
    }
  }
}

}  // namespace

size_t PortableGemmBytes(size_t element_size) { return static_cast<size_t>(kDepth * kColumns) * element_size; }

template <typename T>
void PortableGemm(int64_t m, int64_t n, int64_t k, const T* a, MatrixStrides a_strides, const T* b,
                  MatrixStrides b_strides, T* c, int64_t c_row, bool adds, void* buffer) {
  Multiply(m, n, k, a, a_strides, b, b_strides, c, c_row, adds, static_cast<T*>(buffer));
}

template void PortableGemm<float>(int64_t, int64_t, int64_t, const float*, MatrixStrides, const float*, MatrixStrides,
                                  float*, int64_t, bool, void*);
template void PortableGemm<double>(int64_t, int64_t, int64_t, const double*, MatrixStrides, const double*,
                                   MatrixStrides, double*, int64_t, bool, void*);
template void PortableGemm<int32_t>(int64_t, int64_t, int64_t, const int32_t*, MatrixStrides, const int32_t*,
                                    MatrixStrides, int32_t*, int64_t, bool, void*);
template void PortableGemm<int64_t>(int64_t, int64_t, int64_t, const int64_t*, MatrixStrides, const int64_t*,
                                    MatrixStrides, int64_t*, int64_t, bool, void*);

}  // namespace cotan::cpu
