// SPDX-License-Identifier: Apache-2.0

// The functions of cuDNN's backend API that are in use: loaded with dlopen on a machine with cuDNN, filled by the
// simulator in tests.
#ifndef COTAN_KERNELS_CUDA_CUDNN_CUDNN_TABLE_H_
#define COTAN_KERNELS_CUDA_CUDNN_CUDNN_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "kernels/cuda/cudnn/cudnn_types.h"
#include "kernels/cuda/driver/driver_types.h"

namespace cotan::cuda::cudnn {

// The functions, as X(symbol, parameters). All return a cudnnStatus_t. The semantics are those of cuDNN 9; what callers
// may rely on:
// - A descriptor keeps what it needs of the descriptors that were set as its attributes, once it is finalized.
// - cudnnBackendGetAttribute with CUDNN_TYPE_BACKEND_DESCRIPTOR fills descriptors that the caller created.
// - cudnnBackendExecute queues work on the stream of the handle; it may be captured into a graph.
#define COTAN_CUDNN_FUNCTIONS(X)                                                                                     \
  X(cudnnCreate, (cudnnHandle_t * handle))                                                                           \
  X(cudnnDestroy, (cudnnHandle_t handle))                                                                            \
  X(cudnnSetStream, (cudnnHandle_t handle, driver::CUstream stream))                                                 \
  X(cudnnBackendCreateDescriptor, (cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t * descriptor))        \
  X(cudnnBackendDestroyDescriptor, (cudnnBackendDescriptor_t descriptor))                                            \
  X(cudnnBackendFinalize, (cudnnBackendDescriptor_t descriptor))                                                     \
  X(cudnnBackendSetAttribute, (cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,                \
                               cudnnBackendAttributeType_t type, int64_t count, const void* elements))               \
  X(cudnnBackendGetAttribute, (cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,                \
                               cudnnBackendAttributeType_t type, int64_t capacity, int64_t * count, void* elements)) \
  X(cudnnBackendExecute, (cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack))

// Each member is the function of its name. A std::function, not a pointer, so that tests have several simulated GPUs
// in one process.
struct CudnnTable {
#define COTAN_CUDNN_FUNCTION(name, parameters) std::function<cudnnStatus_t parameters> name;
  COTAN_CUDNN_FUNCTIONS(COTAN_CUDNN_FUNCTION)
#undef COTAN_CUDNN_FUNCTION
  std::function<const char*(cudnnStatus_t status)> cudnnGetErrorString;
  // Writes the message of the last error of the calling thread.
  std::function<void(char* message, size_t size)> cudnnGetLastErrorString;
  std::function<size_t()> cudnnGetVersion;  // 90100 is 9.1.0

  // If not empty, plans are made for the device that this JSON text describes, not for the one of the handle. cuDNN
  // then needs neither a device nor a driver for them.
  std::string device_properties;

  // Returns the functions of the shared library `file`, which is never unloaded.
  // Unavailable: the library is not installed, or lacks a function.
  static absl::StatusOr<CudnnTable> Load(absl::string_view file);

  // Returns the installed library, libcudnn.so.9, which the first call loads. Thread-safe.
  // Unavailable: as Load().
  static absl::StatusOr<const CudnnTable*> Get();

  // Returns the status of a call that returned `status`; `expression` is the text of the call, for the message.
  // Unimplemented: cuDNN does not support the operation. ResourceExhausted: out of memory. Unavailable: cuDNN does not
  // work on this machine. Internal: all other errors.
  absl::Status ToStatus(cudnnStatus_t status, absl::string_view expression) const;
};

// Evaluates `call`, a call of a function of the CudnnTable `table`, and returns its error, if any, from the calling
// function.
#define COTAN_CUDNN_RETURN_IF_ERROR(table, call) COTAN_RETURN_IF_ERROR((table).ToStatus((table).call, #call))

}  // namespace cotan::cuda::cudnn

#endif  // COTAN_KERNELS_CUDA_CUDNN_CUDNN_TABLE_H_
