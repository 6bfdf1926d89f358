// SPDX-License-Identifier: Apache-2.0

// Parts of decompositions of small matrices [..., rows, columns], whose loops over columns are unrolled. Each step is a
// few expressions over the whole matrix.
#ifndef COTAN_AOT_LOWERING_OPS_SMALL_MATRIX_H_
#define COTAN_AOT_LOWERING_OPS_SMALL_MATRIX_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "aot/lowering/ops/lowering.h"

namespace cotan::aot {

Tensor Number(Lowering& l, double value);
Tensor Whole(Lowering& l, int64_t value);

// Returns the size of a dimension.
// Unimplemented: it is dynamic, or above 32, the largest number of unrolled steps.
absl::StatusOr<int64_t> ConstantSize(Lowering& l, const Tensor& x, int64_t dim);

// Returns the number of rows of a square real matrix.
// Unimplemented: it is complex or not square; see ConstantSize().
absl::StatusOr<int64_t> RowsOf(Lowering& l, const Tensor& a);

// Return parts of a matrix, with both dimensions.
Tensor Row(Lowering& l, const Tensor& a, int64_t i);
Tensor Column(Lowering& l, const Tensor& a, int64_t i);
Tensor Element(Lowering& l, const Tensor& a, int64_t i, int64_t j);
Tensor Transposed(Lowering& l, const Tensor& a);

// Return the index of each row as [rows, 1], and of each column as [1, columns].
Tensor RowIndex(Lowering& l, int64_t rows);
Tensor ColumnIndex(Lowering& l, int64_t columns);

Tensor Identity(Lowering& l, DType dtype, int64_t rows, int64_t columns);

// Sizes of a matrix without its batch.
struct MatrixSizes {
  int64_t rows = 0;
  int64_t columns = 0;
};

// a = q r, by Householder's reflections with LAPACK's choice of signs.
struct Qr {
  Tensor q;  // [..., rows, kept], orthonormal columns
  Tensor r;  // [..., kept, columns], upper triangle
};

// Returns the factors of a matrix with at least one row and column; `kept` is at least min(rows, columns).
Qr QrOf(Lowering& l, Tensor a, MatrixSizes sizes, int64_t kept);

}  // namespace cotan::aot

#endif  // COTAN_AOT_LOWERING_OPS_SMALL_MATRIX_H_
