// SPDX-License-Identifier: Apache-2.0

// Packs transposed matrices of f32 with AVX-512.
#ifndef COTAN_KERNELS_CPU_ATTENTION_TRANSPOSED_PANELS_H_
#define COTAN_KERNELS_CPU_ATTENTION_TRANSPOSED_PANELS_H_

#include <cstdint>

namespace cotan::cpu::attention {

// Packs b[k, n] = from[n * stride + k] as PackPanels() does (kernels/cpu/simd/gemm_core.h). Returns false, and packs
// nothing, if the processor lacks AVX-512.
bool PackTransposedPanels(const float* from, int64_t stride, int64_t depth, int64_t columns, float* to);

}  // namespace cotan::cpu::attention

#endif  // COTAN_KERNELS_CPU_ATTENTION_TRANSPOSED_PANELS_H_
