// SPDX-License-Identifier: Apache-2.0

// The functions of cuBLASLt that the backend calls: loaded from libcublasLt.so.13, or filled by the simulator in tests.
#ifndef COTAN_KERNELS_CUDA_CUBLASLT_CUBLASLT_TABLE_H_
#define COTAN_KERNELS_CUDA_CUBLASLT_CUBLASLT_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "kernels/cuda/cublaslt/cublaslt_types.h"

namespace cotan::cuda::cublaslt {

// The functions that return a cublasStatus_t, as X(symbol, parameters). What callers may rely on:
// - cublasLtCreate: needs a current context and allocates memory on its device.
// - cublasLtMatmul: queues D = alpha op(A) op(B) + beta C, plus the bias if the epilogue adds one, rounded once; alpha
//   and beta are read when it is called. All matrices are stored by columns. C may be D with the same layout. It may be
//   recorded into a graph.
// - cublasLtMatmulAlgoGetHeuristic: the algorithm is for biases that are aligned as the descriptor's at that time.
// - The descriptors are read when a function is called with them, and may be changed or destroyed afterwards.
#define COTAN_CUBLASLT_FUNCTIONS(X)                                                                                    \
  X(cublasLtCreate, (cublasLtHandle_t * handle))                                                                       \
  X(cublasLtDestroy, (cublasLtHandle_t handle))                                                                        \
  X(cublasLtMatmul,                                                                                                    \
    (cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,                        \
     cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout, const void* beta, const void* c, \
     cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, \
     void* workspace, size_t workspace_bytes, cudaStream_t stream))                                                    \
  X(cublasLtMatmulAlgoGetHeuristic,                                                                                    \
    (cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a_layout,                         \
     cublasLtMatrixLayout_t b_layout, cublasLtMatrixLayout_t c_layout, cublasLtMatrixLayout_t d_layout,                \
     cublasLtMatmulPreference_t preference, int max_results, cublasLtMatmulHeuristicResult_t* results, int* found))    \
  X(cublasLtMatmulDescCreate,                                                                                          \
    (cublasLtMatmulDesc_t * operation, cublasComputeType_t compute_type, cudaDataType_t scale_type))                   \
  X(cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t operation))                                                       \
  X(cublasLtMatmulDescSetAttribute,                                                                                    \
    (cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const void* value, size_t bytes))       \
  X(cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t * preference))                                         \
  X(cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t preference))                                          \
  X(cublasLtMatmulPreferenceSetAttribute,                                                                              \
    (cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, const void* value,         \
     size_t bytes))                                                                                                    \
  X(cublasLtMatrixLayoutCreate, (cublasLtMatrixLayout_t * layout, cudaDataType_t type, uint64_t rows,                  \
                                 uint64_t columns, int64_t leading_dimension))                                         \
  X(cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout))                                                      \
  X(cublasLtMatrixLayoutSetAttribute,                                                                                  \
    (cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, const void* value, size_t bytes))

// Each member is the function of its name. A std::function, not a pointer, so that tests have several simulated GPUs
// in one process.
struct CublasLtTable {
#define COTAN_CUBLASLT_FUNCTION(name, parameters) std::function<cublasStatus_t parameters> name;
  COTAN_CUBLASLT_FUNCTIONS(COTAN_CUBLASLT_FUNCTION)
#undef COTAN_CUBLASLT_FUNCTION
  // Returns the name of a status, valid until the next call of any function.
  std::function<const char*(cublasStatus_t status)> cublasLtGetStatusName;

  // Returns the functions of the shared library `file`, which is never unloaded.
  // Unavailable: the library is not installed, or lacks a function.
  static absl::StatusOr<CublasLtTable> Load(absl::string_view file);

  // Returns the installed library, libcublasLt.so.13, which the first call loads. Thread-safe.
  // Unavailable: as Load().
  static absl::StatusOr<const CublasLtTable*> Get();

  // Returns the status of a call that returned `result`; `expression` is the text of the call, for the message.
  // Unavailable: the library does not work on this device. ResourceExhausted: out of memory. Unimplemented: the
  // library does not support the operation. Internal: all other errors.
  absl::Status ToStatus(cublasStatus_t result, absl::string_view expression) const;
};

// Evaluates `call`, a call of a function of the CublasLtTable `table`, and returns its error, if any, from the calling
// function.
#define COTAN_CUBLASLT_RETURN_IF_ERROR(table, call) COTAN_RETURN_IF_ERROR((table).ToStatus((table).call, #call))

// Owning handles of the library's objects. The table outlives them.
struct Deleter {
  const CublasLtTable* table;
  void operator()(cublasLtHandle_t handle) const { table->cublasLtDestroy(handle); }
  void operator()(cublasLtMatmulDesc_t handle) const { table->cublasLtMatmulDescDestroy(handle); }
  void operator()(cublasLtMatrixLayout_t handle) const { table->cublasLtMatrixLayoutDestroy(handle); }
  void operator()(cublasLtMatmulPreference_t handle) const { table->cublasLtMatmulPreferenceDestroy(handle); }
};
template <typename Handle>
using Owner = std::unique_ptr<std::remove_pointer_t<Handle>, Deleter>;
using OwnedHandle = Owner<cublasLtHandle_t>;
using OwnedMatmulDesc = Owner<cublasLtMatmulDesc_t>;
using OwnedLayout = Owner<cublasLtMatrixLayout_t>;
using OwnedPreference = Owner<cublasLtMatmulPreference_t>;

}  // namespace cotan::cuda::cublaslt

#endif  // COTAN_KERNELS_CUDA_CUBLASLT_CUBLASLT_TABLE_H_
