// SPDX-License-Identifier: Apache-2.0

// cuDNN on a simulated GPU: the installed library makes the plans, the simulator executes them.
#ifndef COTAN_KERNELS_CUDA_SIM_CUDNN_SIM_CUDNN_H_
#define COTAN_KERNELS_CUDA_SIM_CUDNN_SIM_CUDNN_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/cudnn/cudnn_table.h"
#include "kernels/cuda/driver/driver_types.h"
#include "kernels/cuda/sim/cudnn/descriptor_log.h"
#include "kernels/cuda/sim/cudnn/graph_call.h"
#include "kernels/cuda/sim/device_memory.h"

namespace cotan::cuda::sim {

// Descriptors, heuristics and plans are NVIDIA's, for the device that a JSON text describes: which operation graphs are
// supported, by which engines and with which workspace, is cuDNN's answer. cudnnBackendExecute checks its arguments and
// queues the graph by definition (graph_call.h). The functions of the table are thread-safe and used while the object
// lives.
//
//   SimGpu gpu({});
//   COTAN_ASSIGN_OR_RETURN(const auto cudnn, SimCudnn::Create([&gpu](auto stream, auto label, auto function) {
//     return gpu.EnqueueHostFunction(stream, label, std::move(function));
//   }));
class SimCudnn {
 public:
  // Queues `function` on a stream, as a kernel of that name.
  using Enqueue = std::function<absl::Status(driver::CUstream stream, absl::string_view label,
                                             std::function<absl::Status(DeviceMemory&)> function)>;

  // `device_properties` is empty for an H100.
  // Unavailable: cuDNN is not installed.
  static absl::StatusOr<std::unique_ptr<SimCudnn>> Create(Enqueue enqueue, std::string device_properties = "");

  // Valid while the object lives.
  const cudnn::CudnnTable& table() const { return table_; }

  // Returns the number of calls of cudnnBackendExecute that succeeded.
  int64_t num_executions() const;
  // Returns how many descriptors and handles there are, to find leaks.
  size_t num_live_objects() const;
  // Makes cudnnBackendFinalize of all execution plans fail as not supported, or ends that.
  void RefusePlans(bool refuse);

 private:
  explicit SimCudnn(Enqueue enqueue) : enqueue_(std::move(enqueue)) {}
  void FillTable(const cudnn::CudnnTable& real);
  void FillDescriptorFunctions();
  // Remembers `message` for cudnnGetLastErrorString and returns `status`.
  cudnn::cudnnStatus_t Fail(cudnn::cudnnStatus_t status, absl::string_view message);
  cudnn::cudnnStatus_t Execute(cudnn::cudnnHandle_t handle, cudnn::cudnnBackendDescriptor_t plan,
                               cudnn::cudnnBackendDescriptor_t pack);
  // Asks cuDNN for the notes of the engine of a finalized plan.
  std::vector<cudnn::cudnnBackendNumericalNote_t> EngineNotes(const LoggedDescriptor& plan) const;
  absl::StatusOr<std::shared_ptr<GraphCall>> CallOf(cudnn::cudnnBackendDescriptor_t plan);

  const Enqueue enqueue_;
  const cudnn::CudnnTable* real_ = nullptr;
  cudnn::CudnnTable table_;

  mutable std::mutex mutex_;
  DescriptorLog log_;  // guarded by mutex_, as all below
  std::map<cudnn::cudnnHandle_t, driver::CUstream> handles_;
  uintptr_t next_handle_ = 1;
  // By plan, prepared at its first execution.
  absl::flat_hash_map<cudnn::cudnnBackendDescriptor_t, std::shared_ptr<GraphCall>> calls_;
  std::string last_error_;
  int64_t num_executions_ = 0;
  bool refuse_plans_ = false;
};

}  // namespace cotan::cuda::sim

#endif  // COTAN_KERNELS_CUDA_SIM_CUDNN_SIM_CUDNN_H_
