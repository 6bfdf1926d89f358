// SPDX-License-Identifier: Apache-2.0

// Errors that data cause: kernels record the first one in device memory, the host reads it when it waits for the
// device.
#ifndef COTAN_KERNELS_CUDA_DEVICE_ERROR_LOG_H_
#define COTAN_KERNELS_CUDA_DEVICE_ERROR_LOG_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/driver/driver_table.h"

namespace cotan::cuda {

// Owns the ErrorRecord of kernels/cuda/source/error.cuh and knows the ops that may write it. Not thread-safe. The
// context is current in each call.
class ErrorLog {
 public:
  // Returns the error for an offending element; see KernelPlan::error_at.
  using ErrorAt = std::function<absl::Status(int64_t position, int64_t value)>;

  ErrorLog(const driver::DriverTable& driver, driver::CUstream stream) : driver_(driver), stream_(stream) {}
  ErrorLog(const ErrorLog&) = delete;
  ErrorLog& operator=(const ErrorLog&) = delete;
  // The stream is idle.
  ~ErrorLog();

  // Allocates the record. Call it once, first. ResourceExhausted, Internal.
  absl::Status Create();

  driver::CUdeviceptr record() const { return record_; }

  // Returns a fault id for an op; `name` begins the messages of its errors, unless it is "".
  unsigned Add(ErrorAt error_at, absl::string_view name);
  // Ends the use of a fault id. An error that the op recorded and that was not read is kept for Take().
  void Remove(unsigned fault_id);

  // Waits for the stream and returns the first recorded error, which is cleared.
  // Internal: queued work failed; the message is the vendor's.
  absl::Status Take();

 private:
  absl::Status Read();

  const driver::DriverTable& driver_;
  const driver::CUstream stream_;
  driver::CUdeviceptr record_ = 0;
  void* copy_ = nullptr;  // of the record, in pinned host memory
  struct Op {
    ErrorAt error_at;
    std::string name;
  };
  absl::flat_hash_map<unsigned, Op> ops_;  // by fault id
  unsigned next_fault_id_ = 1;
  absl::Status kept_;  // of an op that is gone
};

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_DEVICE_ERROR_LOG_H_
