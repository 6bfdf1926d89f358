// SPDX-License-Identifier: Apache-2.0

// The operation graphs of attention.
#ifndef COTAN_KERNELS_CUDA_ATTENTION_ATTENTION_GRAPH_H_
#define COTAN_KERNELS_CUDA_ATTENTION_ATTENTION_GRAPH_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/attention/cudnn_attention.h"
#include "kernels/cuda/cudnn/operation_graph.h"

namespace cotan::cuda::attention {

// Alignment of the operands, in bytes.
inline constexpr int64_t kOperandAlignment = 16;

// Ids of the tensors that an execution gives pointers to. The last three are f32 scalars of the host.
enum TensorId : int64_t {
  kQuery = 1,
  kKey,
  kValue,
  kResult,
  kLogSumExp,
  kGrad,
  kGradQuery,
  kGradKey,
  kGradValue,
  kDots,
  kScale,
  kMasked,  // the score of a key that a query does not see
  kOne,
  kFirstVirtual,
};

// Add the operations of the forward or the backward to an empty graph. Errors of cuDNN.
absl::Status AddForward(const AttentionTensors& tensors, OperationGraph& graph);
absl::Status AddBackward(const AttentionTensors& tensors, OperationGraph& graph);

}  // namespace cotan::cuda::attention

#endif  // COTAN_KERNELS_CUDA_ATTENTION_ATTENTION_GRAPH_H_
