// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/cublaslt.h"

#include <dlfcn.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace cotan::cuda {
namespace {

absl::StatusOr<CublasLt> Load() {
  const std::string file = absl::StrCat("libcublasLt.so.", CUBLAS_VER_MAJOR);
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return absl::UnavailableError(absl::StrCat("matrix products on CUDA need ", file, ": ", dlerror(),
                                               ". Install cuBLAS of CUDA ", CUBLAS_VER_MAJOR,
                                               " and add its folder to LD_LIBRARY_PATH, or run on the CPU."));
  }
  CublasLt library;
#define COTAN_CUBLASLT_FUNCTION(name)                                                             \
  library.name = reinterpret_cast<decltype(library.name)>(dlsym(handle, #name));                  \
  if (library.name == nullptr) {                                                                  \
    return absl::UnavailableError(absl::StrCat(file, " has no function " #name ": ", dlerror())); \
  }
  COTAN_CUBLASLT_FUNCTIONS(COTAN_CUBLASLT_FUNCTION)
#undef COTAN_CUBLASLT_FUNCTION
  return library;
}

absl::StatusCode CodeOf(cublasStatus_t result) {
  switch (result) {
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return absl::StatusCode::kUnavailable;
    case CUBLAS_STATUS_ALLOC_FAILED:
      return absl::StatusCode::kResourceExhausted;
    case CUBLAS_STATUS_ARCH_MISMATCH:
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return absl::StatusCode::kUnimplemented;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::StatusOr<const CublasLt*> CublasLt::Get() {
  static const absl::StatusOr<CublasLt>& library = *new absl::StatusOr<CublasLt>(Load());
  if (!library.ok()) return library.status();
  return &*library;
}

absl::Status CublasLt::ToStatus(cublasStatus_t result, absl::string_view expression) const {
  if (result == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::Status(CodeOf(result), absl::StrCat(expression, ": ", cublasLtGetStatusName(result)));
}

}  // namespace cotan::cuda
