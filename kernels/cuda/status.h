// Results of CUDA libraries as absl::Status. Nothing else in the project looks
// at a vendor's error codes.
#ifndef COTAN_KERNELS_CUDA_STATUS_H_
#define COTAN_KERNELS_CUDA_STATUS_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace cotan::cuda {

// `expression` is the call's text, for the message.
// Unavailable: no device, no driver, or one too old for this program.
// ResourceExhausted: the device has no memory left.
// Internal: everything else.
absl::Status ToStatus(cudaError_t result, absl::string_view expression);

}  // namespace cotan::cuda

// Evaluates a call of a CUDA library and returns its error from the calling
// function unless it succeeded.
#define COTAN_CUDA_RETURN_IF_ERROR(expr) COTAN_RETURN_IF_ERROR(::cotan::cuda::ToStatus((expr), #expr))

#endif  // COTAN_KERNELS_CUDA_STATUS_H_
