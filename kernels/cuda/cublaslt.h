// SPDX-License-Identifier: Apache-2.0

// cuBLASLt, opened with dlopen on first use, so that binaries with the CUDA backend also start on machines
// without the library.
#ifndef COTAN_KERNELS_CUDA_CUBLASLT_H_
#define COTAN_KERNELS_CUDA_CUBLASLT_H_

#include <cublasLt.h>

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace cotan::cuda {

// The functions in use. Each line loads one function.
#define COTAN_CUBLASLT_FUNCTIONS(X)       \
  X(cublasLtGetStatusName)                \
  X(cublasLtCreate)                       \
  X(cublasLtDestroy)                      \
  X(cublasLtMatmul)                       \
  X(cublasLtMatmulAlgoGetHeuristic)       \
  X(cublasLtMatmulDescCreate)             \
  X(cublasLtMatmulDescDestroy)            \
  X(cublasLtMatmulDescSetAttribute)       \
  X(cublasLtMatmulPreferenceCreate)       \
  X(cublasLtMatmulPreferenceDestroy)      \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatrixLayoutCreate)           \
  X(cublasLtMatrixLayoutDestroy)          \
  X(cublasLtMatrixLayoutSetAttribute)

// The loaded library. Each member is the function of its name. Thread-safe; never unloaded.
struct CublasLt {
#define COTAN_CUBLASLT_FUNCTION(name) decltype(&::name) name = nullptr;
  COTAN_CUBLASLT_FUNCTIONS(COTAN_CUBLASLT_FUNCTION)
#undef COTAN_CUBLASLT_FUNCTION

  // Returns the library, which the first call loads.
  // Unavailable: the library is not installed, or lacks a function.
  static absl::StatusOr<const CublasLt*> Get();

  // Returns the status of a call that returned `result`; `expression` is the text of the call, for the
  // message.
  // Unavailable: the library could not be initialized on this machine.
  // ResourceExhausted: the library could not allocate memory.
  // Unimplemented: the library does not support the operation.
  // Internal: all other errors.
  absl::Status ToStatus(cublasStatus_t result, absl::string_view expression) const;
};

// Evaluates `call`, a call of a function of the CublasLt `library`, and returns its error, if any, from the
// calling function.
#define COTAN_CUBLASLT_RETURN_IF_ERROR(library, call) COTAN_RETURN_IF_ERROR((library).ToStatus((library).call, #call))

// Owning handles of the library's objects.
struct CublasLtDeleter {
  const CublasLt* library;
  void operator()(cublasLtHandle_t handle) const { library->cublasLtDestroy(handle); }
  void operator()(cublasLtMatmulDesc_t handle) const { library->cublasLtMatmulDescDestroy(handle); }
  void operator()(cublasLtMatrixLayout_t handle) const { library->cublasLtMatrixLayoutDestroy(handle); }
  void operator()(cublasLtMatmulPreference_t handle) const { library->cublasLtMatmulPreferenceDestroy(handle); }
};
template <typename Handle>
using CublasLtOwner = std::unique_ptr<std::remove_pointer_t<Handle>, CublasLtDeleter>;
using CublasLtContext = CublasLtOwner<cublasLtHandle_t>;
using CublasLtMatmulDesc = CublasLtOwner<cublasLtMatmulDesc_t>;
using CublasLtLayout = CublasLtOwner<cublasLtMatrixLayout_t>;
using CublasLtPreference = CublasLtOwner<cublasLtMatmulPreference_t>;

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_CUBLASLT_H_
