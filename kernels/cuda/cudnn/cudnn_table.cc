// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/cudnn/cudnn_table.h"

#include <dlfcn.h>

#include <array>

#include "absl/strings/str_cat.h"

namespace cotan::cuda::cudnn {
namespace {

absl::StatusCode CodeOf(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED:
    case CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED:
      return absl::StatusCode::kResourceExhausted;
    default:
      break;
  }
  // The thousands are the category.
  switch (status / 1000) {
    case CUDNN_STATUS_NOT_INITIALIZED / 1000:
      return absl::StatusCode::kUnavailable;
    case CUDNN_STATUS_NOT_SUPPORTED / 1000:
      return absl::StatusCode::kUnimplemented;
    default:
      return absl::StatusCode::kInternal;
  }
}

absl::Status MissingFunction(absl::string_view file, absl::string_view name) {
  return absl::UnavailableError(absl::StrCat(file, " has no function ", name, ". Install cuDNN 9.8 or later."));
}

}  // namespace

absl::StatusOr<CudnnTable> CudnnTable::Load(absl::string_view file) {
  const std::string path(file);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::UnavailableError(absl::StrCat("cuDNN cannot be used: ", dlerror(), ". Install cuDNN 9 for CUDA 13."));
  }
  CudnnTable table;
#define COTAN_CUDNN_FUNCTION(name, parameters)                                             \
  {                                                                                        \
    auto* function = reinterpret_cast<cudnnStatus_t(*) parameters>(dlsym(library, #name)); \
    if (function == nullptr) return MissingFunction(path, #name);                          \
    table.name = function;                                                                 \
  }
  COTAN_CUDNN_FUNCTIONS(COTAN_CUDNN_FUNCTION)
#undef COTAN_CUDNN_FUNCTION
  auto* error_string = reinterpret_cast<const char* (*)(cudnnStatus_t)>(dlsym(library, "cudnnGetErrorString"));
  if (error_string == nullptr) return MissingFunction(path, "cudnnGetErrorString");
  table.cudnnGetErrorString = error_string;
  auto* last_error = reinterpret_cast<void (*)(char*, size_t)>(dlsym(library, "cudnnGetLastErrorString"));
  if (last_error == nullptr) return MissingFunction(path, "cudnnGetLastErrorString");
  table.cudnnGetLastErrorString = last_error;
  auto* version = reinterpret_cast<size_t (*)()>(dlsym(library, "cudnnGetVersion"));
  if (version == nullptr) return MissingFunction(path, "cudnnGetVersion");
  table.cudnnGetVersion = version;
  return table;
}

absl::StatusOr<const CudnnTable*> CudnnTable::Get() {
  static const absl::StatusOr<CudnnTable>& table = *new absl::StatusOr<CudnnTable>(Load("libcudnn.so.9"));
  if (!table.ok()) return table.status();
  return &*table;
}

absl::Status CudnnTable::ToStatus(cudnnStatus_t status, absl::string_view expression) const {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  std::array<char, 512> details = {};
  cudnnGetLastErrorString(details.data(), details.size());
  return absl::Status(CodeOf(status),
                      absl::StrCat(expression, ": ", cudnnGetErrorString(status), ". ", details.data()));
}

}  // namespace cotan::cuda::cudnn
