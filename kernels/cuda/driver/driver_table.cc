// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/driver/driver_table.h"

#include <dlfcn.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace cotan::cuda::driver {
namespace {

absl::StatusCode CodeOf(CUresult result) {
  switch (result) {
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_STUB_LIBRARY:
      return absl::StatusCode::kUnavailable;
    case CUDA_ERROR_OUT_OF_MEMORY:
      return absl::StatusCode::kResourceExhausted;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::StatusOr<DriverTable> DriverTable::Load(absl::string_view file) {
  const std::string path(file);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::UnavailableError(absl::StrCat("no CUDA device can be used: ", dlerror(),
                                               ". Install an NVIDIA driver for CUDA 13, or run on the CPU."));
  }
  DriverTable table;
#define COTAN_CUDA_DRIVER_FUNCTION(name, parameters)                                                \
  {                                                                                                 \
    auto* function = reinterpret_cast<CUresult(*) parameters>(dlsym(library, #name));               \
    if (function == nullptr) {                                                                      \
      return absl::UnavailableError(                                                                \
          absl::StrCat(path, " has no function " #name ". Install an NVIDIA driver for CUDA 13.")); \
    }                                                                                               \
    table.name = function;                                                                          \
  }
  COTAN_CUDA_DRIVER_FUNCTIONS(COTAN_CUDA_DRIVER_FUNCTION)
#undef COTAN_CUDA_DRIVER_FUNCTION
  return table;
}

absl::StatusOr<const DriverTable*> DriverTable::Get() {
  static const absl::StatusOr<DriverTable>& table = *new absl::StatusOr<DriverTable>(Load("libcuda.so.1"));
  if (!table.ok()) return table.status();
  return &*table;
}

absl::Status DriverTable::ToStatus(CUresult result, absl::string_view expression) const {
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  const char* text = nullptr;
  const char* name = nullptr;
  if (cuGetErrorString(result, &text) != CUDA_SUCCESS || text == nullptr) text = "unknown error";
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) name = "?";
  return absl::Status(CodeOf(result), absl::StrCat(expression, ": ", text, " (", name, ", ", result, ")"));
}

}  // namespace cotan::cuda::driver
