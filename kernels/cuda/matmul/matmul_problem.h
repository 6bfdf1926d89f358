// SPDX-License-Identifier: Apache-2.0

// A batched matrix product reduced to as few loops as its strides allow.
#ifndef COTAN_KERNELS_CUDA_MATMUL_MATMUL_PROBLEM_H_
#define COTAN_KERNELS_CUDA_MATMUL_MATMUL_PROBLEM_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/launch/kernel_plan.h"

namespace cotan::cuda {

// The operands of a product.
enum MatmulRole : uint8_t { kMatmulA, kMatmulB, kMatmulC, kMatmulD };
inline constexpr size_t kNumMatmulRoles = 4;

// A matrix in memory. Strides are in elements.
struct MatmulMatrix {
  int64_t row_stride = 0;
  int64_t column_stride = 0;
  KernelArgument argument;  // address of element (0, 0) of the first matrix of the batch
};

// One batch dimension, with its strides by role in elements; 0 repeats the matrix.
struct MatmulBatch {
  int64_t size = 1;
  std::array<int64_t, kNumMatmulRoles> strides = {};
};

// d[batch..., m, n] = sum over k of a[batch..., m, k] * b[batch..., k, n] (+ c[batch..., m, n])
struct MatmulProblem {
  DType dtype = DType::kUndefined;
  int64_t m = 0, n = 0, k = 0;
  bool has_c = false;
  std::array<MatmulMatrix, kNumMatmulRoles> matrices;
  std::vector<MatmulBatch> batch;  // none of size 1; by descending stride of d

  MatmulMatrix& operator[](MatmulRole role) { return matrices[role]; }
  const MatmulMatrix& operator[](MatmulRole role) const { return matrices[role]; }
  int64_t Rows(MatmulRole role) const { return role == kMatmulB ? k : m; }
  int64_t Columns(MatmulRole role) const { return role == kMatmulA ? k : n; }
  // Returns the number of products.
  int64_t BatchSize() const;
  // Returns whether d has no elements. With k == 0 it has: sums over nothing.
  bool IsEmpty() const { return m == 0 || n == 0 || BatchSize() == 0; }
  // Returns the number of elements from the first to the last of all matrices of a role.
  int64_t Extent(MatmulRole role) const;
};

// Checks a matmul without epilogue by CheckOp() and returns it as a problem. Its arguments are the op's inputs and
// output.
// InvalidArgument, Unimplemented: from CheckOp().
absl::StatusOr<MatmulProblem> AnalyzeMatmul(const KernelRequest& request);

// Merges batch dimensions over which all strides are even, and makes rows or columns of those that repeat b or a.
void MergeMatmulBatch(MatmulProblem& problem);

// Exchanges rows and columns: the problem d^T = b^T a^T (+ c^T), with a and b exchanged.
MatmulProblem TransposeMatmul(const MatmulProblem& problem);

// A matrix as cuBLASLt describes it.
struct BlasStorage {
  int64_t leading_dimension = 1;
  bool transposed = false;  // stored by rows
};

// Returns how a matrix of rows x columns is stored, or nothing if it has no dimension of stride 1 or its rows overlap.
std::optional<BlasStorage> FindBlasStorage(int64_t rows, int64_t columns, const MatmulMatrix& matrix);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_MATMUL_MATMUL_PROBLEM_H_
