// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/cublaslt/cublaslt_table.h"

#include <dlfcn.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace cotan::cuda::cublaslt {
namespace {

constexpr char kFile[] = "libcublasLt.so.13";

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

template <typename Function>
absl::Status LoadFunction(void* library, const std::string& file, const char* name, std::function<Function>& to) {
  auto* function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) {
    return absl::UnavailableError(absl::StrCat(file, " has no function ", name, ". Install cuBLAS of CUDA 13."));
  }
  to = function;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CublasLtTable> CublasLtTable::Load(absl::string_view file) {
  const std::string path(file);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("matrix products on CUDA need ", path, ": ", dlerror(),
                     ". Install cuBLAS of CUDA 13 and add its folder to LD_LIBRARY_PATH, or run on the CPU."));
  }
  CublasLtTable table;
#define COTAN_CUBLASLT_FUNCTION(name, parameters) COTAN_RETURN_IF_ERROR(LoadFunction(library, path, #name, table.name));
  COTAN_CUBLASLT_FUNCTIONS(COTAN_CUBLASLT_FUNCTION)
#undef COTAN_CUBLASLT_FUNCTION
  COTAN_RETURN_IF_ERROR(LoadFunction(library, path, "cublasLtGetStatusName", table.cublasLtGetStatusName));
  return table;
}

absl::StatusOr<const CublasLtTable*> CublasLtTable::Get() {
  static const absl::StatusOr<CublasLtTable>& table = *new absl::StatusOr<CublasLtTable>(Load(kFile));
  if (!table.ok()) return table.status();
  return &*table;
}

absl::Status CublasLtTable::ToStatus(cublasStatus_t result, absl::string_view expression) const {
  if (result == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::Status(CodeOf(result), absl::StrCat(expression, ": ", cublasLtGetStatusName(result)));
}

}  // namespace cotan::cuda::cublaslt
