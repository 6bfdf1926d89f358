// SPDX-License-Identifier: Apache-2.0

// Allocation, copies and sets.
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/sim/sim_driver.h"

namespace cotan::cuda::sim {

using namespace driver;  // The names of the vendor's API. NOLINT(google-build-using-namespace)

namespace {

// What the host reads in the target of a copy that has not run: NaN in every floating-point type.
constexpr int kPoison = 0xff;

bool Overlap(const void* a, uint64_t a_bytes, const void* b, uint64_t b_bytes) {
  const auto first = reinterpret_cast<uintptr_t>(a), second = reinterpret_cast<uintptr_t>(b);
  return first < second + b_bytes && second < first + a_bytes;
}

}  // namespace

CUresult SimDriver::MemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  if (free_bytes == nullptr || total_bytes == nullptr) return InvalidValue("cuMemGetInfo_v2: null");
  *free_bytes = memory_.capacity_bytes() - memory_.live_bytes();
  *total_bytes = memory_.capacity_bytes();
  return CUDA_SUCCESS;
}

CUresult SimDriver::MemAlloc(CUdeviceptr* address, size_t bytes) {
  if (address == nullptr || bytes == 0) return InvalidValue("cuMemAlloc_v2: null, or 0 bytes");
  if (const CUresult result = CheckCallAllowed("cuMemAlloc_v2"); result != CUDA_SUCCESS) return result;
  const auto allocated = memory_.Allocate(bytes, absl::StrCat("allocation ", ++num_allocations_));
  if (!allocated.ok()) return Fail(CUDA_ERROR_OUT_OF_MEMORY, std::string(allocated.status().message()));
  ++statistics_.allocations;
  statistics_.allocated_bytes += static_cast<int64_t>(bytes);
  *address = *allocated;
  return CUDA_SUCCESS;
}

CUresult SimDriver::MemFree(CUdeviceptr address) {
  if (const CUresult result = CheckCallAllowed("cuMemFree_v2"); result != CUDA_SUCCESS) return result;
  if (const absl::Status status = memory_.Free(address); !status.ok()) return InvalidValue(status.message());
  return CUDA_SUCCESS;
}

CUresult SimDriver::MemHostAlloc(void** memory, size_t bytes, unsigned flags) {
  constexpr unsigned kKnownFlags = 7;  // Portable, mapped, write-combined.
  if (memory == nullptr || bytes == 0 || flags > kKnownFlags) {
    return InvalidValue("cuMemHostAlloc: null, 0 bytes, or unknown flags");
  }
  if (const CUresult result = CheckCallAllowed("cuMemHostAlloc"); result != CUDA_SUCCESS) return result;
  const auto allocated = host_.Allocate(bytes, absl::StrCat("host allocation ", ++num_host_allocations_));
  if (!allocated.ok()) return Fail(CUDA_ERROR_OUT_OF_MEMORY, std::string(allocated.status().message()));
  ++statistics_.host_allocations;
  *memory = *allocated;
  return CUDA_SUCCESS;
}

CUresult SimDriver::MemFreeHost(void* memory) {
  if (const CUresult result = CheckCallAllowed("cuMemFreeHost"); result != CUDA_SUCCESS) return result;
  if (const absl::Status status = host_.Free(memory); !status.ok()) return InvalidValue(status.message());
  return CUDA_SUCCESS;
}

CUresult SimDriver::CheckCopy(const MemoryCopy& copy, bool pageable_allowed) {
  absl::Status status;
  if (copy.kind != CopyKind::kToHost) status.Update(memory_.CheckBounds(copy.device_to, copy.bytes));
  if (copy.kind != CopyKind::kToDevice) status.Update(memory_.CheckBounds(copy.device_from, copy.bytes));
  if (copy.kind != CopyKind::kOnDevice) {
    const void* host = copy.kind == CopyKind::kToHost ? copy.host_to : copy.host_from;
    if (host == nullptr || memory_.Contains(reinterpret_cast<uintptr_t>(host))) {
      return InvalidValue(absl::StrCat(NameOf(copy), ": the host's address is null or one of the device"));
    }
    status.Update(host_.Check(host, copy.bytes, pageable_allowed));
  }
  if (status.ok()) return CUDA_SUCCESS;
  return InvalidValue(absl::StrCat(NameOf(copy), ": ", status.message()));
}

CUresult SimDriver::CopyAndWait(const MemoryCopy& copy) {
  if (copy.bytes == 0) return CUDA_SUCCESS;
  CUresult result = CheckCopy(copy, true);
  if (result == CUDA_SUCCESS) result = CheckCallAllowed("a copy that blocks");
  if (result == CUDA_SUCCESS) result = Submit(legacy_, copy);
  if (result != CUDA_SUCCESS) return result;
  ++statistics_.synchronizations;
  return Wait(legacy_.last);
}

CUresult SimDriver::CopyAsync(CUstream stream, const MemoryCopy& copy) {
  if (FindStream(stream) == nullptr) return InvalidHandle("stream");
  if (copy.bytes == 0) return CUDA_SUCCESS;
  if (const CUresult result = CheckCopy(copy, false); result != CUDA_SUCCESS) return result;
  return Submit(stream, copy);
}

CUresult SimDriver::MemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
  return CopyAndWait({.kind = CopyKind::kToDevice, .device_to = to, .host_from = from, .bytes = bytes});
}
CUresult SimDriver::MemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
  return CopyAndWait({.kind = CopyKind::kToHost, .device_from = from, .host_to = to, .bytes = bytes});
}
CUresult SimDriver::MemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return CopyAndWait({.kind = CopyKind::kOnDevice, .device_to = to, .device_from = from, .bytes = bytes});
}
CUresult SimDriver::MemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return CopyAsync(stream, {.kind = CopyKind::kToDevice, .device_to = to, .host_from = from, .bytes = bytes});
}
CUresult SimDriver::MemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return CopyAsync(stream, {.kind = CopyKind::kToHost, .device_from = from, .host_to = to, .bytes = bytes});
}
CUresult SimDriver::MemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return CopyAsync(stream, {.kind = CopyKind::kOnDevice, .device_to = to, .device_from = from, .bytes = bytes});
}

CUresult SimDriver::Fill(CUstream stream, const MemoryFill& fill) {
  if (FindStream(stream) == nullptr) return InvalidHandle("stream");
  if (fill.count == 0) return CUDA_SUCCESS;
  if (fill.to % static_cast<unsigned>(fill.width) != 0) {
    return InvalidValue(absl::StrCat(NameOf(fill), ": the address is not a multiple of ", fill.width));
  }
  const absl::Status status = memory_.CheckBounds(fill.to, fill.count * static_cast<uint64_t>(fill.width));
  if (!status.ok()) return InvalidValue(absl::StrCat(NameOf(fill), ": ", status.message()));
  return Submit(stream, fill);
}

CUresult SimDriver::MemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return Fill(stream, {.to = to, .value = value, .width = 1, .count = count});
}
CUresult SimDriver::MemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return Fill(stream, {.to = to, .value = value, .width = 4, .count = count});
}

absl::Status SimDriver::PrepareHostMemory(std::vector<Work>& works) {
  for (Work& work : works) {
    auto* copy = std::get_if<MemoryCopy>(&work);
    if (copy == nullptr || copy->kind != CopyKind::kToDevice) continue;
    if (!host_.IsPinned(copy->host_from)) continue;  // A copy that blocks.
    COTAN_ASSIGN_OR_RETURN(HostMemory::Snapshot snapshot, host_.Take(copy->host_from, copy->bytes));
    copy->snapshot = std::make_shared<const HostMemory::Snapshot>(std::move(snapshot));
  }
  for (const Work& work : works) {
    const auto* copy = std::get_if<MemoryCopy>(&work);
    if (copy == nullptr || copy->kind != CopyKind::kToHost) continue;
    COTAN_RETURN_IF_ERROR(host_.Check(copy->host_to, copy->bytes, true));
    // A copy from there that is queued before needs the content.
    bool is_read = false;
    const auto look = [&](const Work& other) {
      const auto* from = std::get_if<MemoryCopy>(&other);
      is_read = is_read || (from != nullptr && from->kind == CopyKind::kToDevice &&
                            Overlap(from->host_from, from->bytes, copy->host_to, copy->bytes));
    };
    for (const Work& other : works) look(other);
    queue_.ForEachPending(look);
    if (!is_read) std::memset(copy->host_to, kPoison, copy->bytes);
  }
  return absl::OkStatus();
}

}  // namespace cotan::cuda::sim
