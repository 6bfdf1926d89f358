// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/cudnn/cudnn.h"

#include <algorithm>
#include <bit>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "kernels/cuda/launch/library_call.h"

namespace cotan::cuda {
namespace {

using namespace cudnn;  // NOLINT(google-build-using-namespace): the vendor's names

// Sizes are powers of two, so that growing step by step keeps at most as much again.
constexpr size_t kMinWorkspaceBytes = size_t{1} << 20;

}  // namespace

absl::StatusOr<CudnnDescriptor> CudnnDescriptor::Create(const CudnnTable& table, cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t descriptor = nullptr;
  COTAN_CUDNN_RETURN_IF_ERROR(table, cudnnBackendCreateDescriptor(type, &descriptor));
  return CudnnDescriptor(table, descriptor);
}

CudnnDescriptor::~CudnnDescriptor() {
  if (descriptor_ != nullptr) table_->cudnnBackendDestroyDescriptor(descriptor_);
}

absl::Status CudnnDescriptor::Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                                  const void* elements) {
  return table_->ToStatus(table_->cudnnBackendSetAttribute(descriptor_, name, type, count, elements),
                          absl::StrCat("cudnnBackendSetAttribute of attribute ", name));
}

absl::Status CudnnDescriptor::Set(cudnnBackendAttributeName_t name, absl::Span<const int64_t> values) {
  return Set(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.data());
}

absl::Status CudnnDescriptor::Set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
  return Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.descriptor_);
}

absl::Status CudnnDescriptor::Finalize() {
  return table_->ToStatus(table_->cudnnBackendFinalize(descriptor_), "cudnnBackendFinalize");
}

absl::StatusOr<int64_t> CudnnDescriptor::Get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                             int64_t capacity, void* elements) const {
  int64_t count = 0;
  COTAN_RETURN_IF_ERROR(
      table_->ToStatus(table_->cudnnBackendGetAttribute(descriptor_, name, type, capacity, &count, elements),
                       absl::StrCat("cudnnBackendGetAttribute of attribute ", name)));
  return count;
}

absl::StatusOr<std::unique_ptr<Cudnn>> Cudnn::Create(const CudnnTable& table, const driver::DriverTable& driver,
                                                     driver::CUstream stream, bool tf32) {
  std::unique_ptr<Cudnn> result(new Cudnn(table, driver, tf32));
  const absl::Status status = result->Initialize(stream);
  if (status.ok()) return result;
  return absl::UnavailableError(
      absl::StrCat("cuDNN ", table.cudnnGetVersion(),
                   " (9.8 = 90800 or later is needed) cannot be used on this device: ", status.message()));
}

absl::Status Cudnn::Initialize(driver::CUstream stream) {
  COTAN_CUDNN_RETURN_IF_ERROR(table_, cudnnCreate(&handle_));
  COTAN_CUDNN_RETURN_IF_ERROR(table_, cudnnSetStream(handle_, stream));
  COTAN_ASSIGN_OR_RETURN(CudnnDescriptor properties,
                         CudnnDescriptor::Create(table_, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR));
  const std::string& text = table_.device_properties;
  if (text.empty()) {
    COTAN_RETURN_IF_ERROR(properties.Set(CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle_));
  } else {
    COTAN_RETURN_IF_ERROR(properties.Set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                         static_cast<int64_t>(text.size()), text.data()));
  }
  COTAN_RETURN_IF_ERROR(properties.Finalize());
  device_properties_ = std::make_unique<CudnnDescriptor>(std::move(properties));
  return ReadComputeCapability();
}

// The text has "deviceVer": 900 for Hopper.
absl::Status Cudnn::ReadComputeCapability() {
  constexpr cudnnBackendAttributeName_t kText = CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION;
  COTAN_ASSIGN_OR_RETURN(const int64_t bytes, device_properties_->Get(kText, CUDNN_TYPE_CHAR, 0, nullptr));
  std::string text(static_cast<size_t>(bytes), ' ');
  COTAN_RETURN_IF_ERROR(device_properties_->Get(kText, CUDNN_TYPE_CHAR, bytes, text.data()).status());
  const std::vector<absl::string_view> parts = absl::StrSplit(text, "\"deviceVer\":");
  const size_t digits = parts.size() == 2 ? parts[1].find_first_of(",}") : absl::string_view::npos;
  int version = 0;
  if (digits == absl::string_view::npos || !absl::SimpleAtoi(parts[1].substr(0, digits), &version)) {
    return absl::InternalError("the properties of the device have no deviceVer");
  }
  compute_capability_ = version / 10;
  return absl::OkStatus();
}

Cudnn::~Cudnn() {
  for (const driver::CUdeviceptr workspace : workspaces_) driver_.cuMemFree_v2(workspace);
  device_properties_.reset();
  if (handle_ != nullptr) table_.cudnnDestroy(handle_);
}

absl::Status Cudnn::ReserveWorkspace(size_t bytes) {
  if (bytes <= workspace_bytes_) return absl::OkStatus();
  const size_t rounded = std::bit_ceil(std::max(bytes, kMinWorkspaceBytes));
  driver::CUdeviceptr workspace = 0;
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuMemAlloc_v2(&workspace, kLanes * rounded));
  workspaces_.push_back(workspace);
  workspace_bytes_ = rounded;
  return absl::OkStatus();
}

std::shared_ptr<const CudnnPlan> Cudnn::FindPlan(absl::string_view key) const {
  const auto found = plans_.find(key);
  return found == plans_.end() ? nullptr : found->second.lock();
}

void Cudnn::StorePlan(absl::string_view key, const std::shared_ptr<const CudnnPlan>& plan) {
  absl::erase_if(plans_, [](const auto& entry) { return entry.second.expired(); });
  plans_[key] = plan;
}

void* Cudnn::workspace() const {
  if (workspaces_.empty()) return nullptr;
  const driver::CUdeviceptr address = workspaces_.back() + static_cast<size_t>(lane_) * workspace_bytes_;
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

absl::Status Cudnn::UseLane(driver::CUstream stream, int lane) {
  if (lane == lane_) return absl::OkStatus();
  COTAN_CUDNN_RETURN_IF_ERROR(table_, cudnnSetStream(handle_, stream));
  lane_ = lane;
  return absl::OkStatus();
}

}  // namespace cotan::cuda
