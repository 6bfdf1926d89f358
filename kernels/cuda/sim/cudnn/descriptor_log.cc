// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/cudnn/descriptor_log.h"

#include <utility>

namespace cotan::cuda::sim {
namespace {

using namespace cudnn;  // NOLINT(google-build-using-namespace): the vendor's names

size_t ElementBytes(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    case CUDNN_TYPE_CHAR:
    case CUDNN_TYPE_BOOLEAN:
      return 1;
    default:
      return 4;  // enumerations, float
  }
}

}  // namespace

void DescriptorLog::Create(cudnnBackendDescriptor_t descriptor, cudnnBackendDescriptorType_t type) {
  auto logged = std::make_shared<LoggedDescriptor>();
  logged->type = type;
  descriptors_[descriptor] = std::move(logged);
}

void DescriptorLog::Finalize(cudnnBackendDescriptor_t descriptor) {
  const auto found = descriptors_.find(descriptor);
  if (found != descriptors_.end()) found->second->is_finalized = true;
}

void DescriptorLog::SetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                 cudnnBackendAttributeType_t type, int64_t count, const void* elements) {
  const auto found = descriptors_.find(descriptor);
  if (found == descriptors_.end()) return;
  LoggedDescriptor::Attribute attribute = {.type = type, .count = count, .elements = {}, .descriptors = {}};
  const auto* bytes = static_cast<const std::byte*>(elements);
  attribute.elements.assign(bytes, bytes + static_cast<size_t>(count) * ElementBytes(type));
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const auto* values = static_cast<const cudnnBackendDescriptor_t*>(elements);
    for (int64_t i = 0; i < count; ++i) attribute.descriptors.push_back(Find(values[i]));
  }
  found->second->attributes[name] = std::move(attribute);
}

void DescriptorLog::SetProposed(cudnnBackendDescriptor_t heuristic, int64_t count,
                                const cudnnBackendDescriptor_t* configs) {
  for (int64_t i = 0; i < count; ++i) {
    const auto found = descriptors_.find(configs[i]);
    if (found != descriptors_.end()) found->second->proposed_by = Find(heuristic);
  }
}

void DescriptorLog::SetEngineNotes(cudnnBackendDescriptor_t plan, std::vector<cudnnBackendNumericalNote_t> notes) {
  const auto found = descriptors_.find(plan);
  if (found != descriptors_.end()) found->second->engine_notes = std::move(notes);
}

std::shared_ptr<const LoggedDescriptor> DescriptorLog::Find(cudnnBackendDescriptor_t descriptor) const {
  const auto found = descriptors_.find(descriptor);
  return found == descriptors_.end() ? nullptr : found->second;
}

}  // namespace cotan::cuda::sim
