// SPDX-License-Identifier: Apache-2.0

// Attention and its gradients as one call of cuDNN.
#ifndef COTAN_KERNELS_CUDA_ATTENTION_CUDNN_ATTENTION_H_
#define COTAN_KERNELS_CUDA_ATTENTION_CUDNN_ATTENTION_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/cudnn/cudnn.h"
#include "kernels/cuda/cudnn/execution_plan.h"
#include "kernels/cuda/launch/kernel_plan.h"
#include "kernels/cuda/launch/library_call.h"

namespace cotan::cuda {

// The tensors of attention, [B, H, L or S, E]. logsumexp, and in a backward dots, the sum of grad * result for each
// query, are f32, [B, H, L, 1] and dense.
struct AttentionTensors {
  DType dtype = DType::kBFloat16;
  bool is_backward = false;
  bool is_causal = false;
  float scale = 1;
  StridedLayout q, k, v, result;
  StridedLayout rows;                          // of logsumexp and dots
  StridedLayout grad, grad_q, grad_k, grad_v;  // of a backward
};

// Describes attention as the graph of operations that cuDNN's fused engines recognize: matmul, scale, causal mask,
// softmax, matmul (Dao et al., FlashAttention). The weights are rounded to the dtype before their product with v; the
// backward, which computes them again from logsumexp, rounds the gradients of the scores, too. It has no sums in
// varying order. All operands are aligned to 16 bytes.
class CudnnAttention final : public LibraryCallSpec {
 public:
  // Returns whether cuDNN may compute the op: f16 or bf16; no bias; rows of 8, 16, ... or 128 elements that are dense
  // and 16-byte aligned relative to the tensor; q, k and v of one row size; not one query with one key; no guarded
  // outputs, which a library call cannot leave alone.
  static bool Supports(const KernelRequest& request);

  // Supports(request).
  explicit CudnnAttention(const KernelRequest& request);

  // Returns the pointers of the call. The scratch begins at 0: dots, or a logsumexp that the op does not return,
  // without which cuDNN 9.19 has no engine.
  std::vector<KernelArgument> Arguments() const;
  size_t scratch_bytes() const;

  // Unimplemented also: the device is not sm_80 to sm_99, on which the graph of the backward is deterministic; cuDNN is
  // older than 9.16, which needs other graphs. The operation fails with Internal for operands that are not aligned.
  absl::StatusOr<std::unique_ptr<LibraryOperation>> Prepare(VendorLibraries& libraries) const override;

  // Chooses an engine. Unimplemented: cuDNN does not support the graph.
  absl::StatusOr<ExecutionPlan> MakePlan(const Cudnn& cudnn) const;

 private:
  AttentionTensors tensors_;
  bool returns_logsumexp_ = false;  // a forward
};

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_ATTENTION_CUDNN_ATTENTION_H_
