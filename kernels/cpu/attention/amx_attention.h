// SPDX-License-Identifier: Apache-2.0

// Attention of bf16 whose products run on AMX (kernels/cpu/simd/amx_tiles.h). Probabilities, and the gradients of
// scores, are computed in f32 and rounded to bf16 where they are operands of products; sums are f32.
#ifndef COTAN_KERNELS_CPU_ATTENTION_AMX_ATTENTION_H_
#define COTAN_KERNELS_CPU_ATTENTION_AMX_ATTENTION_H_

#include <memory>

#include "kernels/api/kernel.h"
#include "kernels/cpu/attention/attention_blocks.h"

namespace cotan::cpu::attention {

// Return the kernels of MakeAttention() and MakeAttentionBackward() for bf16, or null if the processor has no AMX or
// there are too few queries for its tiles.
std::unique_ptr<Kernel> MakeAmxAttention(const Geometry& geometry, const ForwardStrides& strides, bool has_bias,
                                         bool has_logsumexp, int threads);
std::unique_ptr<Kernel> MakeAmxAttentionBackward(const Geometry& geometry, const BackwardStrides& strides,
                                                 bool has_bias, int threads);

}  // namespace cotan::cpu::attention

#endif  // COTAN_KERNELS_CPU_ATTENTION_AMX_ATTENTION_H_
