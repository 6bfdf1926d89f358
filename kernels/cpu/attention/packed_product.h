// SPDX-License-Identifier: Apache-2.0

// Products of the tiles of an attention.
#ifndef COTAN_KERNELS_CPU_ATTENTION_PACKED_PRODUCT_H_
#define COTAN_KERNELS_CPU_ATTENTION_PACKED_PRODUCT_H_

#include <cstdint>

namespace cotan::cpu::attention {

// MultiplyPacked() (kernels/cpu/simd/gemm_core.h) for f32 and f64, with AVX-512 for f32: tiles stay in registers to the
// end, and up to 16 last columns take half of the time of a panel.
template <typename T>
void MultiplyTilePacked(const T* a, int64_t a_row, int64_t a_column, const T* panels, int64_t packed_depth,
                        int64_t rows, int64_t columns, int64_t depth, T* c, int64_t c_row, bool adds);

}  // namespace cotan::cpu::attention

#endif  // COTAN_KERNELS_CPU_ATTENTION_PACKED_PRODUCT_H_
