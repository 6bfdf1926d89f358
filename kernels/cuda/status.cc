// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/status.h"

#include "absl/strings/str_cat.h"

namespace cotan::cuda {
namespace {

absl::StatusCode CodeOf(cudaError_t result) {
  switch (result) {
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorSystemNotReady:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorDevicesUnavailable:
    case cudaErrorStubLibrary:
      return absl::StatusCode::kUnavailable;
    case cudaErrorMemoryAllocation:
      return absl::StatusCode::kResourceExhausted;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status ToStatus(cudaError_t result, absl::string_view expression) {
  if (result == cudaSuccess) return absl::OkStatus();
  return absl::Status(CodeOf(result),
                      absl::StrCat(expression, ": ", cudaGetErrorString(result), " (", cudaGetErrorName(result), ")"));
}

}  // namespace cotan::cuda
