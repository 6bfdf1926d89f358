// Scaled dot product attention, forward and backward, f32 and f64, in blocks
// of queries and keys: the matrix of scores is never whole in memory.
#ifndef COTAN_KERNELS_CPU_ATTENTION_ATTENTION_H_
#define COTAN_KERNELS_CPU_ATTENTION_ATTENTION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu {

// Factories of attention and attention_backward. Any strides. With is_causal,
// query i sees keys 0 .. i, and blocks it cannot see are not computed. A query
// that sees no key has result 0, logsumexp -inf and gradients 0. Bitwise equal
// for any thread count: threads share heads and (forward) blocks of queries.
//
// InvalidArgument: from CheckOp(). Unimplemented: another dtype.
absl::StatusOr<std::unique_ptr<Kernel>> MakeAttention(const KernelRequest& request);
absl::StatusOr<std::unique_ptr<Kernel>> MakeAttentionBackward(const KernelRequest& request);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_ATTENTION_ATTENTION_H_
