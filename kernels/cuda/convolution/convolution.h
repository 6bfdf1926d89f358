// SPDX-License-Identifier: Apache-2.0

// Convolutions by cuDNN.
#ifndef COTAN_KERNELS_CUDA_CONVOLUTION_CONVOLUTION_H_
#define COTAN_KERNELS_CUDA_CONVOLUTION_CONVOLUTION_H_

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/launch/kernel_plan.h"

namespace cotan::cuda {

// Plans a convolution op of f16, bf16, f32 or f64: one to three spatial dimensions, groups, dilation, transposed. The
// product is a call of cuDNN, which also adds the bias of a convolution that is not transposed: the sum is in f32 (f64
// for f64) and rounded once, after the bias. The bias of a transposed convolution, and one with gaps, is added by a
// launch of its own to the rounded product. Expanded operands are packed before the call. The call takes no scratch:
// its workspace belongs to class Cudnn. Products over nothing are planned as by PlanOwnConvolution(). CudaOptions::tf32
// lets cuDNN round operands of f32 to TF32.
//
// The plan depends on the request alone. Whether cuDNN supports the call on a device is known when it is prepared
// there: LibraryCallSpec::Prepare() is then Unavailable or Unimplemented, and PlanOwnConvolution() plans the same op
// without cuDNN.
// InvalidArgument: from CheckOp(). Unimplemented: another dtype.
absl::StatusOr<KernelPlan> PlanCudnnConvolution(const KernelRequest& request);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_CONVOLUTION_CONVOLUTION_H_
