// SPDX-License-Identifier: Apache-2.0

// Scaled dot product attention and its gradients in f16, bf16, f32 and f64, in tiles of queries and keys: the matrix of
// scores is never stored. Any sizes and strides. f16 and bf16 are computed in f32 and rounded when they are stored.
//
// With is_causal, query i attends to keys 0 to i, and fully masked tiles are not visited. A query whose keys are all
// masked has result 0, logsumexp -inf and gradients 0.
//
// Each result is computed by one thread in one order: results are bitwise equal for any GPU. The backward has two
// launches, and scratch for one number per query.
//
// Operands of up to 128 columns (64 in f64) are read once per tile of queries (q, and those of the backward that belong
// to the rows of a result) or once per tile of the other side (k and v in the forward). Wider ones are taken in chunks
// of columns: each chunk of a result has blocks of its own, which compute the scores again.
//
// Products are fused multiply-adds of the CUDA cores. cuDNN computes f16 and bf16 on tensor cores (cudnn_attention.h):
// it rounds the weights, and in the backward the gradients of the scores, to 16 bits before their products.
#ifndef COTAN_KERNELS_CUDA_ATTENTION_ATTENTION_H_
#define COTAN_KERNELS_CUDA_ATTENTION_ATTENTION_H_

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/launch/kernel_plan.h"

namespace cotan::cuda {

// Plan attention and attention_backward: by one call of cuDNN if CudnnAttention::Supports(request), else as the
// functions below. The plan depends on the request alone. Whether cuDNN supports the call on a device is known when it
// is prepared there: LibraryCallSpec::Prepare() is then Unavailable or Unimplemented, and the functions below plan the
// same op without cuDNN. InvalidArgument: from CheckOp(). Unimplemented: another dtype; more than 2^30 columns.
absl::StatusOr<KernelPlan> PlanAttention(const KernelRequest& request);
absl::StatusOr<KernelPlan> PlanAttentionBackward(const KernelRequest& request);

// Plan the same ops with kernels of this project. Errors as above.
absl::StatusOr<KernelPlan> PlanFlashAttention(const KernelRequest& request);
absl::StatusOr<KernelPlan> PlanFlashAttentionBackward(const KernelRequest& request);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_ATTENTION_ATTENTION_H_
