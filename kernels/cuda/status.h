// SPDX-License-Identifier: Apache-2.0

// Converts error codes of the CUDA runtime to absl::Status. See cublaslt.h for those of cuBLASLt.
#ifndef COTAN_KERNELS_CUDA_STATUS_H_
#define COTAN_KERNELS_CUDA_STATUS_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace cotan::cuda {

// Returns the status of a call that returned `result`; `expression` is the text of the call, for the message.
// Unavailable: there is no device or no driver, or the driver is too old for this program.
// ResourceExhausted: the device has not enough memory.
// Internal: all other errors.
absl::Status ToStatus(cudaError_t result, absl::string_view expression);

}  // namespace cotan::cuda

// Evaluates a call of the CUDA runtime and returns its error, if any, from the calling function.
#define COTAN_CUDA_RETURN_IF_ERROR(expr) COTAN_RETURN_IF_ERROR(::cotan::cuda::ToStatus((expr), #expr))

#endif  // COTAN_KERNELS_CUDA_STATUS_H_
