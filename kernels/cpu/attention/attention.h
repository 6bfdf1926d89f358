// SPDX-License-Identifier: Apache-2.0

// Scaled dot product attention, forward and backward, f32, f64 and bf16, in blocks of queries and keys (as in
// FlashAttention, arXiv:2205.14135): the matrix of scores is never stored as a whole. bf16 is computed in f32 and
// rounded once.
#ifndef COTAN_KERNELS_CPU_ATTENTION_ATTENTION_H_
#define COTAN_KERNELS_CPU_ATTENTION_ATTENTION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu {

// Factories of attention and attention_backward, with any strides. With is_causal, query i attends to keys 0
// to i, and fully masked blocks are not computed. A query whose keys are all masked has result 0, logsumexp
// -inf and gradients 0. Results are bitwise equal for any thread count: threads share heads and, in the
// forward, blocks of queries.
//
// InvalidArgument: from CheckOp(). Unimplemented: another dtype.
absl::StatusOr<std::unique_ptr<Kernel>> MakeAttention(const KernelRequest& request);
absl::StatusOr<std::unique_ptr<Kernel>> MakeAttentionBackward(const KernelRequest& request);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_ATTENTION_ATTENTION_H_
