// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/device/error_log.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace cotan::cuda {
namespace {

// The layout of ErrorRecord in kernels/cuda/source/error.cuh.
struct Record {
  unsigned op;
  unsigned lock;
  int64_t position;
  int64_t value;
};

}  // namespace

ErrorLog::~ErrorLog() {
  if (record_ != 0) static_cast<void>(driver_.cuMemFree_v2(record_));
  if (copy_ != nullptr) static_cast<void>(driver_.cuMemFreeHost(copy_));
}

absl::Status ErrorLog::Create() {
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuMemAlloc_v2(&record_, sizeof(Record)));
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuMemHostAlloc(&copy_, sizeof(Record), 0));
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuMemsetD8Async(record_, 0, sizeof(Record), stream_));
  return absl::OkStatus();
}

unsigned ErrorLog::Add(ErrorAt error_at, absl::string_view name) {
  const unsigned fault_id = next_fault_id_++;
  ops_[fault_id] = {std::move(error_at), std::string(name)};
  return fault_id;
}

void ErrorLog::Remove(unsigned fault_id) {
  kept_.Update(Take());
  ops_.erase(fault_id);
}

absl::Status ErrorLog::Take() {
  absl::Status status = Read();
  if (kept_.ok()) return status;
  return std::exchange(kept_, absl::OkStatus());
}

absl::Status ErrorLog::Read() {
  if (ops_.empty()) {
    COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuStreamSynchronize(stream_));
    return absl::OkStatus();
  }
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuMemcpyDtoHAsync_v2(copy_, record_, sizeof(Record), stream_));
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuStreamSynchronize(stream_));
  Record record;
  std::memcpy(&record, copy_, sizeof(record));
  if (record.op == 0) return absl::OkStatus();
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuMemsetD8Async(record_, 0, sizeof(Record), stream_));
  const auto found = ops_.find(record.op);
  if (found == ops_.end()) return absl::InternalError("a kernel recorded an error of an unknown op");
  const absl::Status error = found->second.error_at(record.position, record.value);
  if (found->second.name.empty()) return error;
  return absl::Status(error.code(), absl::StrCat(found->second.name, ": ", error.message()));
}

}  // namespace cotan::cuda
