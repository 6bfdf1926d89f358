// SPDX-License-Identifier: Apache-2.0

// Operations of cuDNN that are executed together: the operation graph of its backend API.
#ifndef COTAN_KERNELS_CUDA_CUDNN_OPERATION_GRAPH_H_
#define COTAN_KERNELS_CUDA_CUDNN_OPERATION_GRAPH_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "kernels/cuda/cudnn/cudnn.h"

namespace cotan::cuda {

// A tensor of a graph.
struct GraphTensor {
  enum class Kind : uint8_t {
    kMemory,   // device memory, whose address an execution gives
    kVirtual,  // an intermediate result, which is not stored
    kByValue,  // an element in the host's memory, which an execution reads
  };
  int64_t id = 0;  // unique in the graph
  DType dtype = DType::kFloat32;
  StridedLayout layout;   // all tensors of a graph have the same rank
  int64_t alignment = 0;  // of the address, in bytes
  Kind kind = Kind::kMemory;
};

// Returns cuDNN's name of f16, bf16, f32, f64, i32 or bool.
cudnn::cudnnDataType_t CudnnDataType(DType dtype);

// The operands of a pointwise operation; null: the function does not have it.
struct PointwiseOperands {
  const CudnnDescriptor* x = nullptr;
  const CudnnDescriptor* b = nullptr;
  const CudnnDescriptor* t = nullptr;  // the condition of BINARY_SELECT
  const CudnnDescriptor* y = nullptr;  // the result
};

// Collects finalized operations, in an order in which each tensor is computed before it is used. Operands of size 1 are
// broadcast. `cudnn` outlives the object. All functions return the errors of cuDNN.
class OperationGraph {
 public:
  explicit OperationGraph(const Cudnn& cudnn) : cudnn_(cudnn) {}

  const Cudnn& cudnn() const { return cudnn_; }

  // Returns a finalized tensor, which lives as long as the graph.
  absl::StatusOr<const CudnnDescriptor*> AddTensor(const GraphTensor& tensor);

  // Adds a finalized operation.
  void AddOperation(CudnnDescriptor operation) { operations_.push_back(std::move(operation)); }

  // Adds y = mode(x, b, t), computed in `math`. `axis` is the dimension of GEN_INDEX.
  absl::Status AddPointwise(cudnn::cudnnPointwiseMode_t mode, DType math, const PointwiseOperands& operands,
                            int64_t axis = -1);
  // Adds c = a b, with sums in f32, over the two last dimensions.
  absl::Status AddMatmul(const CudnnDescriptor& a, const CudnnDescriptor& b, const CudnnDescriptor& c);
  // Adds the reduction of x, in f32, over the dimensions in which y has size 1.
  absl::Status AddReduction(cudnn::cudnnReduceTensorOp_t op, const CudnnDescriptor& x, const CudnnDescriptor& y);
  // Adds the copy of x to y: y has the same elements in the same places, as its sizes and strides describe them.
  absl::Status AddReshape(const CudnnDescriptor& x, const CudnnDescriptor& y);

  const std::vector<CudnnDescriptor>& operations() const { return operations_; }

 private:
  absl::StatusOr<CudnnDescriptor> Create(cudnn::cudnnBackendDescriptorType_t type) const {
    return CudnnDescriptor::Create(cudnn_.table(), type);
  }

  const Cudnn& cudnn_;
  std::vector<std::unique_ptr<CudnnDescriptor>> tensors_;
  std::vector<CudnnDescriptor> operations_;
};

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_CUDNN_OPERATION_GRAPH_H_
