// SPDX-License-Identifier: Apache-2.0

// An operation graph of cuDNN, executed on the memory of a simulated GPU.
#ifndef COTAN_KERNELS_CUDA_SIM_CUDNN_GRAPH_CALL_H_
#define COTAN_KERNELS_CUDA_SIM_CUDNN_GRAPH_CALL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/sim/cudnn/descriptor_log.h"
#include "kernels/cuda/sim/cudnn/graph_operation.h"
#include "kernels/cuda/sim/cudnn/host_array.h"
#include "kernels/cuda/sim/device_memory.h"

namespace cotan::cuda::sim {

// The addresses of one call.
struct GraphAddresses {
  std::vector<uint64_t> inputs;
  std::vector<uint64_t> results;
  std::map<int64_t, HostArray> values;  // by id: the tensors that are passed by value, as they are at the call
  uint64_t workspace = 0;
};

// A graph by definition: its operations run in order, and each result is rounded to the dtype of its tensor. If the
// engine of the plan has tensor cores, factors of f32 are rounded to TF32.
class GraphCall {
 public:
  // Reads the graph of an execution plan whose workspace has `workspace_bytes`.
  // FailedPrecondition: the plan does not come from a heuristic; an attribute is missing; a virtual tensor is read
  // before it is computed; a tensor is computed twice; two tensors have one id. Unimplemented: as ReadOperation().
  static absl::StatusOr<std::shared_ptr<GraphCall>> Create(const LoggedDescriptor& plan, int64_t workspace_bytes);

  // Finds the addresses that a variant pack gives to the tensors.
  // InvalidArgument: a pointer is missing, null or misaligned.
  absl::StatusOr<GraphAddresses> Addresses(const LoggedDescriptor& pack) const;

  // Computes the results and leaves rubbish in the workspace.
  // OutOfRange: a tensor or the workspace is not inside of an allocation. InvalidArgument: a result or the workspace
  // overlaps another tensor. FailedPrecondition: an element of an input was never written.
  absl::Status Run(const GraphAddresses& addresses, DeviceMemory& memory);

  const std::string& label() const { return label_; }

 private:
  absl::Status AddOperation(const LoggedDescriptor& operation);
  absl::Status AddInput(const TensorInfo& tensor);
  absl::Status CheckMemory(const GraphAddresses& addresses, DeviceMemory& memory) const;

  std::string label_;
  int64_t workspace_bytes_ = 0;
  bool rounds_to_tf32_ = false;
  std::vector<std::unique_ptr<GraphOperation>> operations_;
  std::map<int64_t, TensorInfo> known_;  // by id: all tensors
  std::vector<TensorInfo> inputs_;       // in memory
  std::vector<TensorInfo> values_;       // passed by value
  std::vector<TensorInfo> results_;      // in memory
};

}  // namespace cotan::cuda::sim

#endif  // COTAN_KERNELS_CUDA_SIM_CUDNN_GRAPH_CALL_H_
