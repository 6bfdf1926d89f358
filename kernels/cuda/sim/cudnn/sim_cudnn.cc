// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/cudnn/sim_cudnn.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/sim/cudnn/h100_properties.h"

namespace cotan::cuda::sim {
namespace {

using namespace cudnn;  // NOLINT(google-build-using-namespace): the vendor's names

constexpr int64_t kMaxNotes = 16;

}  // namespace

absl::StatusOr<std::unique_ptr<SimCudnn>> SimCudnn::Create(Enqueue enqueue, std::string device_properties) {
  COTAN_ASSIGN_OR_RETURN(const CudnnTable* real, CudnnTable::Get());
  std::unique_ptr<SimCudnn> result(new SimCudnn(std::move(enqueue)));
  result->FillTable(*real);
  result->table_.device_properties = device_properties.empty() ? kH100Properties : std::move(device_properties);
  return result;
}

int64_t SimCudnn::num_executions() const {
  const std::lock_guard lock(mutex_);
  return num_executions_;
}

size_t SimCudnn::num_live_objects() const {
  const std::lock_guard lock(mutex_);
  return log_.num_live() + handles_.size();
}

void SimCudnn::RefusePlans(bool refuse) {
  const std::lock_guard lock(mutex_);
  refuse_plans_ = refuse;
}

cudnnStatus_t SimCudnn::Fail(cudnnStatus_t status, absl::string_view message) {
  last_error_ = std::string(message);
  return status;
}

void SimCudnn::FillTable(const CudnnTable& real) {
  real_ = &real;
  table_ = real;
  table_.cudnnCreate = [this](cudnnHandle_t* handle) {
    const std::lock_guard lock(mutex_);
    // Not an address of anything: only this table knows handles.
    *handle = reinterpret_cast<cudnnHandle_t>(next_handle_++);  // NOLINT(performance-no-int-to-ptr)
    handles_[*handle] = nullptr;
    return CUDNN_STATUS_SUCCESS;
  };
  table_.cudnnDestroy = [this](cudnnHandle_t handle) {
    const std::lock_guard lock(mutex_);
    if (handles_.erase(handle) == 1) return CUDNN_STATUS_SUCCESS;
    return Fail(CUDNN_STATUS_BAD_PARAM, "cudnnDestroy: no such handle");
  };
  table_.cudnnSetStream = [this](cudnnHandle_t handle, driver::CUstream stream) {
    const std::lock_guard lock(mutex_);
    const auto found = handles_.find(handle);
    if (found == handles_.end()) return Fail(CUDNN_STATUS_BAD_PARAM, "cudnnSetStream: no such handle");
    found->second = stream;
    return CUDNN_STATUS_SUCCESS;
  };
  table_.cudnnGetLastErrorString = [this](char* message, size_t size) {
    const std::lock_guard lock(mutex_);
    if (last_error_.empty()) return real_->cudnnGetLastErrorString(message, size);
    const size_t length = std::min(last_error_.size(), size - 1);
    std::memcpy(message, last_error_.data(), length);
    message[length] = '\0';
    last_error_.clear();
  };
  table_.cudnnBackendExecute = [this](cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                      cudnnBackendDescriptor_t pack) { return Execute(handle, plan, pack); };
  FillDescriptorFunctions();
}

void SimCudnn::FillDescriptorFunctions() {
  table_.cudnnBackendCreateDescriptor = [this](cudnnBackendDescriptorType_t type,
                                               cudnnBackendDescriptor_t* descriptor) {
    const cudnnStatus_t status = real_->cudnnBackendCreateDescriptor(type, descriptor);
    const std::lock_guard lock(mutex_);
    if (status == CUDNN_STATUS_SUCCESS) log_.Create(*descriptor, type);
    return status;
  };
  table_.cudnnBackendDestroyDescriptor = [this](cudnnBackendDescriptor_t descriptor) {
    const std::lock_guard lock(mutex_);
    if (log_.Find(descriptor) == nullptr) {
      return Fail(CUDNN_STATUS_BAD_PARAM, "cudnnBackendDestroyDescriptor: no such descriptor");
    }
    log_.Destroy(descriptor);
    calls_.erase(descriptor);
    return real_->cudnnBackendDestroyDescriptor(descriptor);
  };
  table_.cudnnBackendFinalize = [this](cudnnBackendDescriptor_t descriptor) {
    const std::lock_guard lock(mutex_);
    const std::shared_ptr<const LoggedDescriptor> logged = log_.Find(descriptor);
    if (logged == nullptr) return Fail(CUDNN_STATUS_BAD_PARAM, "cudnnBackendFinalize: no such descriptor");
    if (refuse_plans_ && logged->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
      return Fail(CUDNN_STATUS_NOT_SUPPORTED, "the simulator refuses plans");
    }
    const cudnnStatus_t status = real_->cudnnBackendFinalize(descriptor);
    if (status == CUDNN_STATUS_SUCCESS) log_.Finalize(descriptor);
    if (status == CUDNN_STATUS_SUCCESS && logged->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
      log_.SetEngineNotes(descriptor, EngineNotes(*logged));
    }
    return status;
  };
  table_.cudnnBackendSetAttribute = [this](cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                           cudnnBackendAttributeType_t type, int64_t count, const void* elements) {
    const cudnnStatus_t status = real_->cudnnBackendSetAttribute(descriptor, name, type, count, elements);
    const std::lock_guard lock(mutex_);
    if (status == CUDNN_STATUS_SUCCESS) log_.SetAttribute(descriptor, name, type, count, elements);
    return status;
  };
  table_.cudnnBackendGetAttribute = [this](cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                           cudnnBackendAttributeType_t type, int64_t capacity, int64_t* count,
                                           void* elements) {
    const cudnnStatus_t status = real_->cudnnBackendGetAttribute(descriptor, name, type, capacity, count, elements);
    if (status == CUDNN_STATUS_SUCCESS && name == CUDNN_ATTR_ENGINEHEUR_RESULTS && elements != nullptr) {
      const std::lock_guard lock(mutex_);
      log_.SetProposed(descriptor, std::min(capacity, *count), static_cast<const cudnnBackendDescriptor_t*>(elements));
    }
    return status;
  };
}

std::vector<cudnnBackendNumericalNote_t> SimCudnn::EngineNotes(const LoggedDescriptor& plan) const {
  const auto config = plan.Values<cudnnBackendDescriptor_t>(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  std::vector<cudnnBackendNumericalNote_t> notes(kMaxNotes);
  int64_t count = 0;
  cudnnBackendDescriptor_t engine = nullptr;
  if (!config.ok() ||
      real_->cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) != CUDNN_STATUS_SUCCESS) {
    return {};
  }
  real_->cudnnBackendGetAttribute(config->front(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                  &count, &engine);
  count = 0;
  real_->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, kMaxNotes,
                                  &count, notes.data());
  real_->cudnnBackendDestroyDescriptor(engine);
  notes.resize(static_cast<size_t>(std::min(count, kMaxNotes)));
  return notes;
}

absl::StatusOr<std::shared_ptr<GraphCall>> SimCudnn::CallOf(cudnnBackendDescriptor_t plan) {
  std::shared_ptr<GraphCall>& call = calls_[plan];
  if (call != nullptr) return call;
  const std::shared_ptr<const LoggedDescriptor> logged = log_.Find(plan);
  if (logged == nullptr || logged->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR || !logged->is_finalized) {
    return absl::InvalidArgumentError("cudnnBackendExecute: the plan is not a finalized execution plan");
  }
  int64_t workspace_bytes = 0;
  int64_t count = 0;
  const cudnnStatus_t status = real_->cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                               CUDNN_TYPE_INT64, 1, &count, &workspace_bytes);
  if (status != CUDNN_STATUS_SUCCESS) return absl::InternalError("a plan has no workspace size");
  COTAN_ASSIGN_OR_RETURN(call, GraphCall::Create(*logged, workspace_bytes));
  return call;
}

cudnnStatus_t SimCudnn::Execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  const std::lock_guard lock(mutex_);
  const auto found = handles_.find(handle);
  if (found == handles_.end()) return Fail(CUDNN_STATUS_BAD_PARAM, "cudnnBackendExecute: no such handle");
  const absl::StatusOr<std::shared_ptr<GraphCall>> call = CallOf(plan);
  if (!call.ok()) return Fail(CUDNN_STATUS_BAD_PARAM, call.status().message());
  const std::shared_ptr<const LoggedDescriptor> logged_pack = log_.Find(pack);
  if (logged_pack == nullptr || logged_pack->type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR ||
      !logged_pack->is_finalized) {
    return Fail(CUDNN_STATUS_BAD_PARAM, "cudnnBackendExecute: the pack is not a finalized variant pack");
  }
  const absl::StatusOr<GraphAddresses> addresses = (*call)->Addresses(*logged_pack);
  if (!addresses.ok()) return Fail(CUDNN_STATUS_BAD_PARAM, addresses.status().message());
  const absl::Status status =
      enqueue_(found->second, (*call)->label(),
               [shared = *call, at = *addresses](DeviceMemory& memory) { return shared->Run(at, memory); });
  if (!status.ok()) return Fail(CUDNN_STATUS_EXECUTION_FAILED, status.message());
  ++num_executions_;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace cotan::cuda::sim
