// SPDX-License-Identifier: Apache-2.0

// Scaled dot product attention and its gradients in f16, bf16, f32 and f64, in tiles of queries and keys: the matrix of
// scores is never stored. Any sizes and strides. f16 and bf16 are computed in f32 and rounded when they are stored.
//
// With is_causal, query i attends to keys 0 to i, and fully masked tiles are not visited. A query whose keys are all
// masked has result 0, logsumexp -inf and gradients 0.
//
// Each result is computed by one thread in one order: results are bitwise equal for any GPU. The backward has three
// launches, and scratch for one number per query.
//
// Operands of up to 128 columns (64 in f64) are read once per tile of queries (q, and those of the backward that belong
// to the rows of a result) or once per tile of the other side (k and v in the forward). Wider ones are taken in chunks
// of columns: each chunk of a result has blocks of its own, which compute the scores again.
//
// Products are fused multiply-adds of the CUDA cores. What is to be had from the tensor cores, for f16 and bf16:
//  - cuDNN's attention graph (matmul, scale, bias, causal mask, softmax, matmul) as a LibraryCall. cuDNN 9.19 makes
//    plans for sm_90 without a GPU in f16 and bf16: the forward, and the backward with the deterministic option, which
//    takes more workspace; E = 20 was refused (multiples of 8). To be found out before it is used: limits of E, Ev and
//    of strides on each architecture, the alignment of its causal mask when L != S (ours is top left), what fully
//    masked rows give (ours: result 0, logsumexp -inf), and whether its statistics are our logsumexp. A library call
//    cannot leave guarded outputs alone, so these keep the kernels of this folder. The choice must depend on the op
//    alone, so that a plan made ahead of time is the plan of the session.
//  - mma.sync in MultiplyTransposed() and MultiplyRows() of cotan/attention_tile.cuh: tiles would stay in 16 bits, and
//    the weights are rounded to 16 bits before the second product, so tolerances grow.
#ifndef COTAN_KERNELS_CUDA_ATTENTION_ATTENTION_H_
#define COTAN_KERNELS_CUDA_ATTENTION_ATTENTION_H_

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/launch/kernel_plan.h"

namespace cotan::cuda {

// Plans of attention and attention_backward.
// InvalidArgument: from CheckOp(). Unimplemented: another dtype; more than 2^30 columns.
absl::StatusOr<KernelPlan> PlanAttention(const KernelRequest& request);
absl::StatusOr<KernelPlan> PlanAttentionBackward(const KernelRequest& request);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_ATTENTION_ATTENTION_H_
