// SPDX-License-Identifier: Apache-2.0

// Initialisation, errors, the device and its context.
#include <algorithm>
#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/sim/ptx/launch.h"
#include "kernels/cuda/sim/sim_driver.h"

namespace cotan::cuda::sim {

using namespace driver;  // The names of the vendor's API. NOLINT(google-build-using-namespace)

namespace {

constexpr int kDriverVersion = 13000;  // Of CUDA 13.0.
constexpr int kL2Bytes = 50 << 20;

struct ResultName {
  CUresult result;
  const char* name;
  const char* text;
};

constexpr ResultName kResults[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "not initialized"},
    {CUDA_ERROR_STUB_LIBRARY, "CUDA_ERROR_STUB_LIBRARY", "the library is a stub"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no device"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "no device of this number"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "the image is not a module"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "no context is current"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU", "the image has no code for this device"},
    {CUDA_ERROR_INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "the PTX cannot be compiled"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid handle"},
    {CUDA_ERROR_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE", "the object is not in the state for this call"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "the module has nothing of this name"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "the work is not done"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "access of memory that is not allocated"},
    {CUDA_ERROR_MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned access"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "queued work failed"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "not supported"},
    {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "the driver's parts do not match"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "not allowed in a capture"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "an earlier call failed"},
    {CUDA_ERROR_STREAM_CAPTURE_MERGE, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "would join two captures"},
    {CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "not where the capture began"},
    {CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "a stream did not join again"},
    {CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "waits for work outside"},
    {CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "the legacy stream would wait"},
    {CUDA_ERROR_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT", "the event was recorded in a capture"},
    {CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "another thread began it"},
    {CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", "the node cannot be changed so"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const ResultName* Find(CUresult result) {
  const auto* found =
      std::find_if(std::begin(kResults), std::end(kResults), [&](const auto& entry) { return entry.result == result; });
  return found == std::end(kResults) ? nullptr : found;
}

}  // namespace

CUresult SimDriver::Init(unsigned flags) {
  if (flags != 0) return InvalidValue("cuInit: the flags have to be 0");
  initialized_ = true;
  return CUDA_SUCCESS;
}

CUresult SimDriver::GetVersion(int* version) {
  if (version == nullptr) return InvalidValue("cuDriverGetVersion: null");
  *version = kDriverVersion;
  return CUDA_SUCCESS;
}

// These two do not change the last error.
CUresult SimDriver::GetErrorName(CUresult result, const char** name) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ResultName* found = Find(result);
  *name = found == nullptr ? nullptr : found->name;
  return found == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult SimDriver::GetErrorString(CUresult result, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ResultName* found = Find(result);
  *text = found == nullptr ? nullptr : found->text;
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (result == sticky_ && result != CUDA_SUCCESS) {
    *text = sticky_text_->c_str();
  } else if (result == last_error_ && last_text_ != nullptr) {
    *text = last_text_->c_str();
  }
  return CUDA_SUCCESS;
}

CUresult SimDriver::DeviceGetCount(int* count) {
  if (count == nullptr) return InvalidValue("cuDeviceGetCount: null");
  *count = 1;
  return CUDA_SUCCESS;
}

CUresult SimDriver::DeviceGet(CUdevice* device, int ordinal) {
  if (device == nullptr) return InvalidValue("cuDeviceGet: null");
  if (ordinal != 0) return Fail(CUDA_ERROR_INVALID_DEVICE, absl::StrCat("there is no device ", ordinal, ", only 0"));
  *device = 0;
  return CUDA_SUCCESS;
}

CUresult SimDriver::CheckDevice(CUdevice device) {
  if (device == 0) return CUDA_SUCCESS;
  return Fail(CUDA_ERROR_INVALID_DEVICE, absl::StrCat("there is no device ", device, ", only 0"));
}

CUresult SimDriver::DeviceGetName(char* name, int size, CUdevice device) {
  if (const CUresult result = CheckDevice(device); result != CUDA_SUCCESS) return result;
  if (name == nullptr || size <= 0) return InvalidValue("cuDeviceGetName: no memory for the name");
  const size_t length = std::min(options_.name.size(), static_cast<size_t>(size) - 1);
  std::memcpy(name, options_.name.data(), length);
  name[length] = '\0';
  return CUDA_SUCCESS;
}

CUresult SimDriver::DeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  if (const CUresult result = CheckDevice(device); result != CUDA_SUCCESS) return result;
  if (value == nullptr) return InvalidValue("cuDeviceGetAttribute: null");
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = 1024;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      *value = 48 * 1024;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      *value = 32;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = options_.multiprocessors;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      *value = kL2Bytes;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = options_.compute_capability / 10;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = options_.compute_capability % 10;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = static_cast<int>(ptx::MaxSharedBytes(options_.compute_capability));
      return CUDA_SUCCESS;
  }
  return InvalidValue(absl::StrCat("cuDeviceGetAttribute: the simulated GPU has no attribute ", attribute));
}

CUresult SimDriver::DeviceTotalMem(size_t* bytes, CUdevice device) {
  if (const CUresult result = CheckDevice(device); result != CUDA_SUCCESS) return result;
  if (bytes == nullptr) return InvalidValue("cuDeviceTotalMem_v2: null");
  *bytes = memory_.capacity_bytes();
  return CUDA_SUCCESS;
}

CUresult SimDriver::PrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (const CUresult result = CheckDevice(device); result != CUDA_SUCCESS) return result;
  if (context == nullptr) return InvalidValue("cuDevicePrimaryCtxRetain: null");
  if (context_ == nullptr) context_ = static_cast<CUcontext>(NewHandle());
  ++context_count_;
  *context = context_;
  return CUDA_SUCCESS;
}

CUresult SimDriver::PrimaryCtxRelease(CUdevice device) {
  if (const CUresult result = CheckDevice(device); result != CUDA_SUCCESS) return result;
  if (context_count_ == 0) {
    return Fail(CUDA_ERROR_INVALID_CONTEXT, "cuDevicePrimaryCtxRelease_v2: the context is not retained");
  }
  if (--context_count_ == 0) current_.clear();
  return CUDA_SUCCESS;
}

CUresult SimDriver::CtxSetCurrent(CUcontext context) {
  if (context == nullptr) {
    current_.erase(std::this_thread::get_id());
    return CUDA_SUCCESS;
  }
  if (context != context_ || context_count_ == 0) {
    return Fail(CUDA_ERROR_INVALID_CONTEXT, "cuCtxSetCurrent: not the context of this device, or it was released");
  }
  current_.insert(std::this_thread::get_id());
  return CUDA_SUCCESS;
}

CUresult SimDriver::CtxGetCurrent(CUcontext* context) {
  if (context == nullptr) return InvalidValue("cuCtxGetCurrent: null");
  *context = current_.contains(std::this_thread::get_id()) ? context_ : nullptr;
  return CUDA_SUCCESS;
}

CUresult SimDriver::CtxSynchronize() {
  if (!captures_.empty()) {
    return Invalidate(*captures_.back(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                      "cuCtxSynchronize while a stream is captured");
  }
  ++statistics_.synchronizations;
  return Stick(queue_.CompleteAll());
}

}  // namespace cotan::cuda::sim
