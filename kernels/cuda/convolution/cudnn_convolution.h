// SPDX-License-Identifier: Apache-2.0

// The call of cuDNN that computes a convolution.
#ifndef COTAN_KERNELS_CUDA_CONVOLUTION_CUDNN_CONVOLUTION_H_
#define COTAN_KERNELS_CUDA_CONVOLUTION_CUDNN_CONVOLUTION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "kernels/cuda/convolution/convolution_problem.h"
#include "kernels/cuda/cudnn/cudnn.h"
#include "kernels/cuda/cudnn/execution_plan.h"
#include "kernels/cuda/launch/library_call.h"

namespace cotan::cuda {

// Describes a convolution as cuDNN takes it: two or three spatial dimensions, any strides without two elements at one
// address. The pointers of the call are wide, weights and narrow, one of which it writes.
class CudnnConvolution final : public LibraryCallSpec {
 public:
  // No tensor of `problem` is empty; its bias is ignored.
  explicit CudnnConvolution(const ConvolutionProblem& problem);

  // The operation may run with operands that are only aligned to their elements, then with another engine.
  absl::StatusOr<std::unique_ptr<LibraryOperation>> Prepare(VendorLibraries& libraries) const override;

  // Chooses an engine for operands that are aligned to `alignment` bytes.
  // Unimplemented: cuDNN does not support the convolution.
  absl::StatusOr<ExecutionPlan> MakePlan(const Cudnn& cudnn, int64_t alignment) const;

 private:
  ConvolutionProduct product_;
  DType dtype_;
  StridedLayout wide_;
  StridedLayout weights_;
  StridedLayout narrow_;
  DimVector padding_;
  DimVector stride_;
  DimVector dilation_;
};

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_CONVOLUTION_CUDNN_CONVOLUTION_H_
