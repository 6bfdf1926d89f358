// SPDX-License-Identifier: Apache-2.0

// Calls of the vendor's libraries within the plan of an op.
#ifndef COTAN_KERNELS_CUDA_LAUNCH_LIBRARY_CALL_H_
#define COTAN_KERNELS_CUDA_LAUNCH_LIBRARY_CALL_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/driver/driver_table.h"

namespace cotan::cuda {

// Streams on which independent work of a captured graph runs at the same time.
inline constexpr int kLanes = 3;

class CublasLt;  // kernels/cuda/cublaslt/cublaslt.h
class Cudnn;     // kernels/cuda/cudnn/cudnn.h

// The stream of a device and the vendor's libraries on it. The device owns them all.
class VendorLibraries {
 public:
  virtual ~VendorLibraries() = default;

  virtual const driver::DriverTable& driver() const = 0;
  // The stream on which the next work is queued.
  virtual driver::CUstream stream() const = 0;
  // Return the handle of the library on this device, which the first call makes.
  // Unavailable: the library is not installed, or does not work on this device.
  virtual absl::StatusOr<CublasLt*> cublaslt() = 0;
  virtual absl::StatusOr<Cudnn*> cudnn() = 0;
};

// A prepared call. It may be recorded into a CUDA graph: Enqueue() allocates nothing and does not synchronize.
class LibraryOperation {
 public:
  virtual ~LibraryOperation() = default;

  // Queues the call on the device's stream. `pointers` are device addresses, one per LibraryCall::arguments.
  // Internal: the library failed; the message is the vendor's.
  virtual absl::Status Enqueue(absl::Span<void* const> pointers) = 0;

  // Returns whether queued work may run code that the library unloads with the operation: then what it has queued ends
  // before it is destroyed.
  virtual bool owns_code() const { return false; }
};

// The description of a call: data, made without a device.
class LibraryCallSpec {
 public:
  virtual ~LibraryCallSpec() = default;

  // Prepares the call on a device, once per plan. The device outlives the result.
  // Unavailable: as VendorLibraries. Unimplemented: the library does not support this call on this device.
  virtual absl::StatusOr<std::unique_ptr<LibraryOperation>> Prepare(VendorLibraries& libraries) const = 0;
};

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_LAUNCH_LIBRARY_CALL_H_
