// SPDX-License-Identifier: Apache-2.0

// A copy of what a program set in cuDNN's descriptors, because cuDNN's own cannot be read completely.
#ifndef COTAN_KERNELS_CUDA_SIM_CUDNN_DESCRIPTOR_LOG_H_
#define COTAN_KERNELS_CUDA_SIM_CUDNN_DESCRIPTOR_LOG_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "kernels/cuda/cudnn/cudnn_types.h"

namespace cotan::cuda::sim {

// The attributes of a descriptor.
struct LoggedDescriptor {
  struct Attribute {
    cudnn::cudnnBackendAttributeType_t type;
    int64_t count = 0;
    std::vector<std::byte> elements;
    std::vector<std::shared_ptr<const LoggedDescriptor>> descriptors;  // of CUDNN_TYPE_BACKEND_DESCRIPTOR
  };

  cudnn::cudnnBackendDescriptorType_t type;
  bool is_finalized = false;
  std::map<cudnn::cudnnBackendAttributeName_t, Attribute> attributes;
  // The heuristic that proposed an engine configuration.
  std::shared_ptr<const LoggedDescriptor> proposed_by;
  // The numerical notes of the engine of a finalized execution plan.
  std::vector<cudnn::cudnnBackendNumericalNote_t> engine_notes;

  // Return the elements of an attribute.
  // FailedPrecondition: it was not set.
  absl::StatusOr<const Attribute*> Find(cudnn::cudnnBackendAttributeName_t name) const {
    const auto found = attributes.find(name);
    if (found != attributes.end()) return &found->second;
    return absl::FailedPreconditionError(
        absl::StrCat("attribute ", name, " of a descriptor of type ", type, " is not set"));
  }
  template <typename T>
  absl::StatusOr<std::vector<T>> Values(cudnn::cudnnBackendAttributeName_t name) const {
    const absl::StatusOr<const Attribute*> attribute = Find(name);
    if (!attribute.ok()) return attribute.status();
    std::vector<T> values((*attribute)->elements.size() / sizeof(T));
    std::memcpy(values.data(), (*attribute)->elements.data(), values.size() * sizeof(T));
    return values;
  }
  absl::StatusOr<std::shared_ptr<const LoggedDescriptor>> Descriptor(cudnn::cudnnBackendAttributeName_t name) const {
    const absl::StatusOr<const Attribute*> attribute = Find(name);
    if (!attribute.ok()) return attribute.status();
    if ((*attribute)->descriptors.size() == 1) return (*attribute)->descriptors[0];
    return absl::FailedPreconditionError(absl::StrCat("attribute ", name, " is not one descriptor"));
  }
};

// The live descriptors. Not thread-safe.
class DescriptorLog {
 public:
  // Record the successful calls of the functions of their names.
  void Create(cudnn::cudnnBackendDescriptor_t descriptor, cudnn::cudnnBackendDescriptorType_t type);
  void Destroy(cudnn::cudnnBackendDescriptor_t descriptor) { descriptors_.erase(descriptor); }
  void Finalize(cudnn::cudnnBackendDescriptor_t descriptor);
  void SetAttribute(cudnn::cudnnBackendDescriptor_t descriptor, cudnn::cudnnBackendAttributeName_t name,
                    cudnn::cudnnBackendAttributeType_t type, int64_t count, const void* elements);
  // Records that `heuristic` proposed `configs`.
  void SetProposed(cudnn::cudnnBackendDescriptor_t heuristic, int64_t count,
                   const cudnn::cudnnBackendDescriptor_t* configs);

  // Records the notes of the engine of `plan`.
  void SetEngineNotes(cudnn::cudnnBackendDescriptor_t plan, std::vector<cudnn::cudnnBackendNumericalNote_t> notes);

  // Returns null if there is no such descriptor.
  std::shared_ptr<const LoggedDescriptor> Find(cudnn::cudnnBackendDescriptor_t descriptor) const;
  size_t num_live() const { return descriptors_.size(); }

 private:
  absl::flat_hash_map<cudnn::cudnnBackendDescriptor_t, std::shared_ptr<LoggedDescriptor>> descriptors_;
};

}  // namespace cotan::cuda::sim

#endif  // COTAN_KERNELS_CUDA_SIM_CUDNN_DESCRIPTOR_LOG_H_
