// SPDX-License-Identifier: Apache-2.0

// The operations of cuDNN's graphs by their definition, on arrays of the host.
#ifndef COTAN_KERNELS_CUDA_SIM_CUDNN_GRAPH_OPERATION_H_
#define COTAN_KERNELS_CUDA_SIM_CUDNN_GRAPH_OPERATION_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/sim/cudnn/descriptor_log.h"
#include "kernels/cuda/sim/cudnn/host_array.h"

namespace cotan::cuda::sim {

// An operation with its tensors.
class GraphOperation {
 public:
  virtual ~GraphOperation() = default;

  // Returns the values of output(), not yet rounded to its dtype. `inputs` are one per inputs(). If `rounds_to_tf32`,
  // factors of products that are f32 are rounded to TF32.
  virtual absl::StatusOr<HostArray> Compute(absl::Span<const HostArray* const> inputs, bool rounds_to_tf32) = 0;

  const std::vector<TensorInfo>& inputs() const { return inputs_; }
  const TensorInfo& output() const { return output_; }
  const std::string& label() const { return label_; }

 protected:
  std::string label_;  // "convolution", ...
  std::vector<TensorInfo> inputs_;
  TensorInfo output_;
};

// Read an operation descriptor, and check the sizes and dtypes of its tensors.
// FailedPrecondition: an attribute is missing, or is not allowed. Unimplemented: the simulator lacks the operation, or
// an attribute has a value that it lacks.
absl::StatusOr<std::unique_ptr<GraphOperation>> ReadConvolution(const LoggedDescriptor& operation);
absl::StatusOr<std::unique_ptr<GraphOperation>> ReadPointwise(const LoggedDescriptor& operation);
absl::StatusOr<std::unique_ptr<GraphOperation>> ReadMatmul(const LoggedDescriptor& operation);
absl::StatusOr<std::unique_ptr<GraphOperation>> ReadReduction(const LoggedDescriptor& operation);
absl::StatusOr<std::unique_ptr<GraphOperation>> ReadReshape(const LoggedDescriptor& operation);
// Reads one of the above.
absl::StatusOr<std::unique_ptr<GraphOperation>> ReadOperation(const LoggedDescriptor& operation);

}  // namespace cotan::cuda::sim

#endif  // COTAN_KERNELS_CUDA_SIM_CUDNN_GRAPH_OPERATION_H_
