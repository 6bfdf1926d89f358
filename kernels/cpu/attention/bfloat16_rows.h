// SPDX-License-Identifier: Apache-2.0

// Conversions of dense rows between bf16 and f32, with AVX-512 where the processor has it.
#ifndef COTAN_KERNELS_CPU_ATTENTION_BFLOAT16_ROWS_H_
#define COTAN_KERNELS_CPU_ATTENTION_BFLOAT16_ROWS_H_

#include <cstdint>

#include "kernels/cpu/simd/avx512_lanes.h"

namespace cotan::cpu::attention {

// Converts rows of `columns` elements, the first ones of which are `from_row` and `to_row` elements apart.
void WidenRows(const BFloat16* from, int64_t from_row, int64_t rows, int64_t columns, float* to, int64_t to_row);

// Computes to[i] = from[i] * factor, rounded to nearest, ties to even.
void NarrowRow(const float* from, float factor, int64_t columns, BFloat16* to);

}  // namespace cotan::cpu::attention

#endif  // COTAN_KERNELS_CPU_ATTENTION_BFLOAT16_ROWS_H_
