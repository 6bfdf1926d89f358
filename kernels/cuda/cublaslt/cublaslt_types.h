// SPDX-License-Identifier: Apache-2.0

// The types of cuBLASLt that the backend uses, so that it is built without a CUDA toolkit. Names, values and layouts
// are those of <cublasLt.h> 13; cublaslt_types_test.cc compares them where a toolkit is installed.
#ifndef COTAN_KERNELS_CUDA_CUBLASLT_CUBLASLT_TYPES_H_
#define COTAN_KERNELS_CUDA_CUBLASLT_CUBLASLT_TYPES_H_

#include <cstddef>
#include <cstdint>

// The tags of the vendor's opaque handles.
struct cublasLtContext;
struct CUstream_st;

namespace cotan::cuda::cublaslt {

using cublasLtHandle_t = ::cublasLtContext*;
using cudaStream_t = ::CUstream_st*;

struct cublasLtMatmulDescOpaque_t {
  uint64_t data[32];
};
struct cublasLtMatrixLayoutOpaque_t {
  uint64_t data[8];
};
struct cublasLtMatmulPreferenceOpaque_t {
  uint64_t data[8];
};
using cublasLtMatmulDesc_t = cublasLtMatmulDescOpaque_t*;
using cublasLtMatrixLayout_t = cublasLtMatrixLayoutOpaque_t*;
using cublasLtMatmulPreference_t = cublasLtMatmulPreferenceOpaque_t*;

enum cublasStatus_t : unsigned {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_ARCH_MISMATCH = 8,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_INTERNAL_ERROR = 14,
  CUBLAS_STATUS_NOT_SUPPORTED = 15,
};

enum cudaDataType_t : unsigned { CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16F = 2, CUDA_R_16BF = 14 };

enum cublasComputeType_t : unsigned {
  CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_64F = 70,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
};

enum cublasOperation_t : unsigned { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };

enum cublasLtMatmulDescAttributes_t : unsigned {
  CUBLASLT_MATMUL_DESC_TRANSA = 3,           // cublasOperation_t
  CUBLASLT_MATMUL_DESC_TRANSB = 4,           // cublasOperation_t
  CUBLASLT_MATMUL_DESC_EPILOGUE = 7,         // cublasLtEpilogue_t
  CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,     // const void*; its alignment counts when an algorithm is chosen
  CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = 26,  // cudaDataType_t
};

enum cublasLtEpilogue_t : unsigned {
  CUBLASLT_EPILOGUE_DEFAULT = 1,
  CUBLASLT_EPILOGUE_BIAS = 4,  // adds a dense vector with an element per row of the result
};

enum cublasLtMatrixLayoutAttribute_t : unsigned {
  CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,           // int32_t
  CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6,  // int64_t, elements
};

enum cublasLtMatmulPreferenceAttributes_t : unsigned {
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,    // uint64_t
  CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,  // uint32_t
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,  // uint32_t
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,  // uint32_t
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,  // uint32_t
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8,  // uint32_t
};

// How parts of a long sum are added; bits of a mask. NONE is always allowed.
enum cublasLtReductionScheme_t : unsigned {
  CUBLASLT_REDUCTION_SCHEME_NONE = 0,
  CUBLASLT_REDUCTION_SCHEME_INPLACE = 1,       // in the result, in an undefined order
  CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2,  // in the workspace, in a fixed order, in the compute type
  CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE = 4,   // in the workspace, rounded to the type of the result
  CUBLASLT_REDUCTION_SCHEME_MASK = 7,
};

struct cublasLtMatmulAlgo_t {
  uint64_t data[8];
};

struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;  // bytes
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
};

}  // namespace cotan::cuda::cublaslt

#endif  // COTAN_KERNELS_CUDA_CUBLASLT_CUBLASLT_TYPES_H_
