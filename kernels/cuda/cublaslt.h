// cuBLASLt, opened when first used: a program that could run on a GPU starts
// and runs on machines that do not have the library.
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

// The functions in use; a line here loads one more.
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

// The loaded library. Members are the functions under their own names.
// Thread-safe; never unloaded.
struct CublasLt {
#define COTAN_CUBLASLT_FUNCTION(name) decltype(&::name) name = nullptr;
  COTAN_CUBLASLT_FUNCTIONS(COTAN_CUBLASLT_FUNCTION)
#undef COTAN_CUBLASLT_FUNCTION

  // Unavailable: the library is not installed, or lacks a function.
  static absl::StatusOr<const CublasLt*> Get();

  // Of a call whose text is `expression`.
  // Unavailable: the library could not initialise on this machine.
  // ResourceExhausted: it could not allocate.
  // Unimplemented: it does not support what was asked.
  // Internal: everything else.
  absl::Status ToStatus(cublasStatus_t result, absl::string_view expression) const;
};

// Evaluates `call`, of a function of the CublasLt `library`, and
// returns its error from the calling function unless it succeeded.
#define COTAN_CUBLASLT_RETURN_IF_ERROR(library, call) COTAN_RETURN_IF_ERROR((library).ToStatus((library).call, #call))

// Objects of the library, destroyed with their handles.
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
