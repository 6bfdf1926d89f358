// SPDX-License-Identifier: Apache-2.0

// cuDNN on one device, and execution plans of its operations.
#ifndef COTAN_KERNELS_CUDA_CUDNN_CUDNN_H_
#define COTAN_KERNELS_CUDA_CUDNN_CUDNN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/cuda/cudnn/cudnn_table.h"
#include "kernels/cuda/driver/driver_table.h"

namespace cotan::cuda {

// Owns a descriptor of the backend API. The table outlives it.
class CudnnDescriptor {
 public:
  // Errors of cuDNN.
  static absl::StatusOr<CudnnDescriptor> Create(const cudnn::CudnnTable& table,
                                                cudnn::cudnnBackendDescriptorType_t type);
  CudnnDescriptor(CudnnDescriptor&& other) noexcept
      : table_(other.table_), descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept {
    std::swap(table_, other.table_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~CudnnDescriptor();

  cudnn::cudnnBackendDescriptor_t get() const { return descriptor_; }

  // Set an attribute before Finalize(). Errors of cuDNN.
  absl::Status Set(cudnn::cudnnBackendAttributeName_t name, absl::Span<const int64_t> values);
  absl::Status Set(cudnn::cudnnBackendAttributeName_t name, int64_t value) {
    return Set(name, absl::MakeConstSpan(&value, 1));
  }
  absl::Status Set(cudnn::cudnnBackendAttributeName_t name, const CudnnDescriptor& value);
  absl::Status Set(cudnn::cudnnBackendAttributeName_t name, cudnn::cudnnBackendAttributeType_t type, int64_t count,
                   const void* elements);
  absl::Status Finalize();

  // Reads up to `capacity` elements of an attribute, and returns how many there are.
  absl::StatusOr<int64_t> Get(cudnn::cudnnBackendAttributeName_t name, cudnn::cudnnBackendAttributeType_t type,
                              int64_t capacity, void* elements) const;

 private:
  CudnnDescriptor(const cudnn::CudnnTable& table, cudnn::cudnnBackendDescriptor_t descriptor)
      : table_(&table), descriptor_(descriptor) {}

  const cudnn::CudnnTable* table_;
  cudnn::cudnnBackendDescriptor_t descriptor_;
};

// A finalized execution plan; see ExecutionPlan.
struct CudnnPlan {
  CudnnDescriptor descriptor;
  size_t workspace_bytes = 0;
  int64_t engine = -1;
  std::vector<cudnn::cudnnBackendNumericalNote_t> notes = {};
};

// cuDNN on the streams of a device, with a workspace that all operations of a lane share, because they run one after
// another.
// Not thread-safe.
class Cudnn {
 public:
  // Uses cuDNN on the device whose context is current, and queues work on `stream`. Both tables and the stream outlive
  // the result. If `tf32`, operations of f32 operands may round them to TF32; otherwise they are IEEE f32.
  // Unavailable: cuDNN does not work on this device, or is older than 9.8.
  static absl::StatusOr<std::unique_ptr<Cudnn>> Create(const cudnn::CudnnTable& table,
                                                       const driver::DriverTable& driver, driver::CUstream stream,
                                                       bool tf32 = false);
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;
  // All work on the stream is done, and no captured graph is launched any more.
  ~Cudnn();

  const cudnn::CudnnTable& table() const { return table_; }
  cudnn::cudnnHandle_t handle() const { return handle_; }
  bool tf32() const { return tf32_; }
  // Ten times the major plus the minor version of the device: 90 for Hopper.
  int compute_capability() const { return compute_capability_; }
  // The device for which plans are made.
  const CudnnDescriptor& device_properties() const { return *device_properties_; }

  // Queues the next operations on `stream`, with the workspace of `lane`, below kLanes. Errors of cuDNN.
  absl::Status UseLane(driver::CUstream stream, int lane);

  // Makes workspace() have at least `bytes` bytes. A workspace that is replaced stays allocated, because captured
  // graphs have its address.
  // ResourceExhausted: out of device memory.
  absl::Status ReserveWorkspace(size_t bytes);
  // Aligned to 256 bytes; null if nothing was reserved.
  void* workspace() const;
  size_t workspace_bytes() const { return workspace_bytes_; }

  // Returns the plan that StorePlan() got for `key` and that is still in use, else null.
  std::shared_ptr<const CudnnPlan> FindPlan(absl::string_view key) const;
  // Keeps `plan` for `key`, which says all that the plan depends on, as long as others own it.
  void StorePlan(absl::string_view key, const std::shared_ptr<const CudnnPlan>& plan);

 private:
  Cudnn(const cudnn::CudnnTable& table, const driver::DriverTable& driver, bool tf32)
      : table_(table), driver_(driver), tf32_(tf32) {}
  absl::Status Initialize(driver::CUstream stream);
  // Reads compute_capability_ from the properties of the device.
  absl::Status ReadComputeCapability();

  const cudnn::CudnnTable& table_;
  const driver::DriverTable& driver_;
  const bool tf32_;
  int compute_capability_ = 0;
  cudnn::cudnnHandle_t handle_ = nullptr;
  std::unique_ptr<CudnnDescriptor> device_properties_;
  std::vector<driver::CUdeviceptr> workspaces_;  // of all lanes; the last one is in use
  size_t workspace_bytes_ = 0;                   // of a lane of the last one
  int lane_ = 0;
  absl::flat_hash_map<std::string, std::weak_ptr<const CudnnPlan>> plans_;
};

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_CUDNN_CUDNN_H_
