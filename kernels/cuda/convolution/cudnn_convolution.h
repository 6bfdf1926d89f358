// SPDX-License-Identifier: Apache-2.0

// The call of cuDNN that computes a convolution.
#ifndef COTAN_KERNELS_CUDA_CONVOLUTION_CUDNN_CONVOLUTION_H_
#define COTAN_KERNELS_CUDA_CONVOLUTION_CUDNN_CONVOLUTION_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "kernels/cuda/convolution/convolution_problem.h"
#include "kernels/cuda/cudnn/cudnn.h"
#include "kernels/cuda/cudnn/execution_plan.h"
#include "kernels/cuda/cudnn/operation_graph.h"
#include "kernels/cuda/launch/library_call.h"

namespace cotan::cuda {

// Describes a convolution as cuDNN takes it: two or three spatial dimensions, any strides without two elements at one
// address. A bias is added in the same operation graph to the sum in f32 (f64), which is then rounded once. The
// pointers of the call are wide, weights and narrow, one of which it writes, and the bias if there is one.
class CudnnConvolution final : public LibraryCallSpec {
 public:
  // No tensor of `problem` is empty. If it has a bias, FusesBias(problem).
  explicit CudnnConvolution(const ConvolutionProblem& problem);

  // Returns whether the bias of `problem` can be a part of the call: cuDNN 9.19 has engines for a bias after forward
  // products only (transposed convolutions have none), and the bias has to be dense.
  static bool FusesBias(const ConvolutionProblem& problem);

  // The operation may run with operands that are only aligned to their elements, then with another engine.
  absl::StatusOr<std::unique_ptr<LibraryOperation>> Prepare(VendorLibraries& libraries) const override;

  // Chooses an engine for operands that are aligned to `alignment` bytes. Operands of f32 are rounded to TF32 only if
  // cudnn.tf32().
  // Unimplemented: cuDNN does not support the convolution.
  absl::StatusOr<ExecutionPlan> MakePlan(const Cudnn& cudnn, int64_t alignment) const;

 private:
  // Returns what the plan for operands with this alignment depends on.
  std::string KeyOf(int64_t alignment) const;
  absl::StatusOr<CudnnDescriptor> MakeConvolution(const Cudnn& cudnn) const;
  // Adds the product with the tensors wide, weights and narrow.
  absl::Status AddProduct(OperationGraph& graph, const CudnnDescriptor& wide, const CudnnDescriptor& weights,
                          const CudnnDescriptor& narrow) const;

  ConvolutionProduct product_;
  DType dtype_;
  StridedLayout wide_;
  StridedLayout weights_;
  StridedLayout narrow_;
  std::optional<StridedLayout> bias_;
  DimVector padding_;
  DimVector stride_;
  DimVector dilation_;
};

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_CONVOLUTION_CUDNN_CONVOLUTION_H_
