// SPDX-License-Identifier: Apache-2.0

// The contract of cublasLtMatmul.
#ifndef COTAN_KERNELS_CUDA_SIM_CUBLASLT_PRODUCT_CONTRACT_H_
#define COTAN_KERNELS_CUDA_SIM_CUBLASLT_PRODUCT_CONTRACT_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "kernels/cuda/cublaslt/cublaslt_types.h"

namespace cotan::cuda::sim {

struct OperationAttributes {
  cublaslt::cublasComputeType_t compute_type = cublaslt::CUBLAS_COMPUTE_32F;
  cublaslt::cudaDataType_t scale_type = cublaslt::CUDA_R_32F;
  cublaslt::cublasOperation_t transpose_a = cublaslt::CUBLAS_OP_N;
  cublaslt::cublasOperation_t transpose_b = cublaslt::CUBLAS_OP_N;
  cublaslt::cublasLtEpilogue_t epilogue = cublaslt::CUBLASLT_EPILOGUE_DEFAULT;
  std::optional<cublaslt::cudaDataType_t> bias_type = std::nullopt;  // none: that of d
  friend bool operator==(const OperationAttributes&, const OperationAttributes&) = default;
};

// A stored matrix, by columns. Strides are in elements.
struct LayoutAttributes {
  cublaslt::cudaDataType_t type = cublaslt::CUDA_R_32F;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t leading_dimension = 0;
  int32_t batch_count = 1;
  int64_t batch_stride = 0;
  friend bool operator==(const LayoutAttributes&, const LayoutAttributes&) = default;

  int64_t ElementBytes() const;
};

// The common part of a heuristic call and a product.
struct ProductSignature {
  OperationAttributes operation;
  LayoutAttributes a, b, c, d;
  friend bool operator==(const ProductSignature&, const ProductSignature&) = default;

  bool AddsBias() const { return operation.epilogue == cublaslt::CUBLASLT_EPILOGUE_BIAS; }
};

// One call. Addresses are on the device.
struct ProductArguments {
  ProductSignature signature;
  uint64_t a = 0, b = 0, c = 0, d = 0;
  uint64_t bias = 0;  // an element per row of d, the same for the whole batch
  double alpha = 1;
  double beta = 0;  // 0: c is not read
  uint64_t workspace = 0;
  uint64_t workspace_bytes = 0;  // that the algorithm uses
};

// InvalidArgument: sizes of the matrices or of their batches do not fit together, or a leading dimension is below the
// number of rows. Unimplemented: the library does not support these types together; the bias is not of d's type.
absl::Status CheckSignature(const ProductSignature& signature);

// InvalidArgument: d overlaps a, b, the bias, itself, or c without being c; or the workspace is null or not aligned, or
// overlaps an operand. Elements count, not gaps between them. The signature has passed CheckSignature().
absl::Status CheckOverlaps(const ProductArguments& product);

}  // namespace cotan::cuda::sim

#endif  // COTAN_KERNELS_CUDA_SIM_CUBLASLT_PRODUCT_CONTRACT_H_
