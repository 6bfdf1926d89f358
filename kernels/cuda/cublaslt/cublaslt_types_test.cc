// SPDX-License-Identifier: Apache-2.0

// Compares cublaslt_types.h and cublaslt_table.h with the toolkit's <cublasLt.h>, when compiled.
#include "kernels/cuda/cublaslt/cublaslt_types.h"

#include <cublasLt.h>

#include <cstddef>
#include <type_traits>

#include "gtest/gtest.h"
#include "kernels/cuda/cublaslt/cublaslt_table.h"

namespace cotan::cuda {
namespace {

// Whether both types are passed alike: integers and handles with the vendor's tags are the same type, enumerations and
// pointers to structs have a counterpart.
template <typename Ours, typename Theirs>
constexpr bool SameParameter() {
  if constexpr (std::is_pointer_v<Ours> || std::is_pointer_v<Theirs>) {
    return std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>;
  } else if constexpr (std::is_enum_v<Theirs>) {
    return std::is_enum_v<Ours> && std::is_same_v<std::underlying_type_t<Ours>, std::underlying_type_t<Theirs>>;
  } else {
    return std::is_same_v<Ours, Theirs>;
  }
}

template <typename OursResult, typename... Ours, typename TheirsResult, typename... Theirs>
constexpr bool SameFunction(OursResult (*)(Ours...), TheirsResult (*)(Theirs...)) {
  if constexpr (sizeof...(Ours) != sizeof...(Theirs)) {
    return false;
  } else {
    return SameParameter<OursResult, TheirsResult>() && (SameParameter<Ours, Theirs>() && ...);
  }
}

}  // namespace

namespace cublaslt {
#define COTAN_CUBLASLT_FUNCTION(name, parameters)                                                                \
  static_assert(                                                                                                 \
      SameFunction(static_cast<cublasStatus_t(*) parameters>(nullptr), static_cast<decltype(&::name)>(nullptr)), \
      #name);
COTAN_CUBLASLT_FUNCTIONS(COTAN_CUBLASLT_FUNCTION)
#undef COTAN_CUBLASLT_FUNCTION
}  // namespace cublaslt

namespace {

#define COTAN_SAME_VALUE(name) static_assert(static_cast<int>(cublaslt::name) == static_cast<int>(::name))
COTAN_SAME_VALUE(CUBLAS_STATUS_SUCCESS);
COTAN_SAME_VALUE(CUBLAS_STATUS_NOT_INITIALIZED);
COTAN_SAME_VALUE(CUBLAS_STATUS_ALLOC_FAILED);
COTAN_SAME_VALUE(CUBLAS_STATUS_INVALID_VALUE);
COTAN_SAME_VALUE(CUBLAS_STATUS_ARCH_MISMATCH);
COTAN_SAME_VALUE(CUBLAS_STATUS_EXECUTION_FAILED);
COTAN_SAME_VALUE(CUBLAS_STATUS_INTERNAL_ERROR);
COTAN_SAME_VALUE(CUBLAS_STATUS_NOT_SUPPORTED);
COTAN_SAME_VALUE(CUDA_R_32F);
COTAN_SAME_VALUE(CUDA_R_64F);
COTAN_SAME_VALUE(CUDA_R_16F);
COTAN_SAME_VALUE(CUDA_R_16BF);
COTAN_SAME_VALUE(CUBLAS_COMPUTE_32F);
COTAN_SAME_VALUE(CUBLAS_COMPUTE_64F);
COTAN_SAME_VALUE(CUBLAS_COMPUTE_32F_FAST_TF32);
COTAN_SAME_VALUE(CUBLAS_OP_N);
COTAN_SAME_VALUE(CUBLAS_OP_T);
COTAN_SAME_VALUE(CUBLASLT_MATMUL_DESC_TRANSA);
COTAN_SAME_VALUE(CUBLASLT_MATMUL_DESC_TRANSB);
COTAN_SAME_VALUE(CUBLASLT_MATMUL_DESC_EPILOGUE);
COTAN_SAME_VALUE(CUBLASLT_MATMUL_DESC_BIAS_POINTER);
COTAN_SAME_VALUE(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
COTAN_SAME_VALUE(CUBLASLT_EPILOGUE_DEFAULT);
COTAN_SAME_VALUE(CUBLASLT_EPILOGUE_BIAS);
COTAN_SAME_VALUE(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
COTAN_SAME_VALUE(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
COTAN_SAME_VALUE(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
COTAN_SAME_VALUE(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
COTAN_SAME_VALUE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
COTAN_SAME_VALUE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
COTAN_SAME_VALUE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
COTAN_SAME_VALUE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
COTAN_SAME_VALUE(CUBLASLT_REDUCTION_SCHEME_NONE);
COTAN_SAME_VALUE(CUBLASLT_REDUCTION_SCHEME_INPLACE);
COTAN_SAME_VALUE(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
COTAN_SAME_VALUE(CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE);
COTAN_SAME_VALUE(CUBLASLT_REDUCTION_SCHEME_MASK);
#undef COTAN_SAME_VALUE

static_assert(sizeof(cublaslt::cublasLtMatmulDescOpaque_t) == sizeof(::cublasLtMatmulDescOpaque_t));
static_assert(sizeof(cublaslt::cublasLtMatrixLayoutOpaque_t) == sizeof(::cublasLtMatrixLayoutOpaque_t));
static_assert(sizeof(cublaslt::cublasLtMatmulPreferenceOpaque_t) == sizeof(::cublasLtMatmulPreferenceOpaque_t));
static_assert(sizeof(cublaslt::cublasLtEpilogue_t) == sizeof(::cublasLtEpilogue_t));
static_assert(sizeof(cublaslt::cublasLtMatmulAlgo_t) == sizeof(::cublasLtMatmulAlgo_t));
static_assert(sizeof(cublaslt::cublasLtMatmulHeuristicResult_t) == sizeof(::cublasLtMatmulHeuristicResult_t));

#define COTAN_SAME_FIELD(type, field)                                         \
  static_assert(offsetof(cublaslt::type, field) == offsetof(::type, field) && \
                sizeof(cublaslt::type::field) == sizeof(::type::field))
COTAN_SAME_FIELD(cublasLtMatmulHeuristicResult_t, algo);
COTAN_SAME_FIELD(cublasLtMatmulHeuristicResult_t, workspaceSize);
COTAN_SAME_FIELD(cublasLtMatmulHeuristicResult_t, state);
COTAN_SAME_FIELD(cublasLtMatmulHeuristicResult_t, wavesCount);
COTAN_SAME_FIELD(cublasLtMatmulHeuristicResult_t, reserved);
#undef COTAN_SAME_FIELD

TEST(CublasLtTypes, HandlesAreTheToolkits) {
  EXPECT_TRUE((std::is_same_v<cublaslt::cublasLtHandle_t, ::cublasLtHandle_t>));
  EXPECT_TRUE((std::is_same_v<cublaslt::cudaStream_t, ::cudaStream_t>));
}

}  // namespace
}  // namespace cotan::cuda
