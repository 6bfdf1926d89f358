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

// Sizes of a matrix without its batch.
struct MatrixSizes {
  int64_t rows = 0;
  int64_t columns = 0;
};

// Returns true if decompositions of a matrix and solves with it are unrolled: it has at most 32 rows and columns.
// Expressions run on every device. Matrices of more or of dynamic size go to an op of the runtime, which CPUs have
// (linear_algebra_op.h).
// Unimplemented: the matrix is complex.
absl::StatusOr<bool> IsUnrolled(Lowering& l, const Tensor& a);

// Returns the sizes of a matrix. Unimplemented: they are dynamic.
absl::StatusOr<MatrixSizes> ConstantSizes(Lowering& l, const Tensor& a);

// Returns the number of rows or columns.
const SymInt& RowsOf(const Tensor& a);
const SymInt& ColumnsOf(const Tensor& a);

// Returns true if the matrix certainly has no elements.
bool IsEmpty(const Tensor& a);

// Returns the sizes of the batch: all but the last two.
SymIntVector BatchOf(const Tensor& a);

// Return parts of a matrix, with both dimensions.
Tensor Row(Lowering& l, const Tensor& a, int64_t i);
Tensor Column(Lowering& l, const Tensor& a, int64_t i);
Tensor Element(Lowering& l, const Tensor& a, int64_t i, int64_t j);
Tensor Transposed(Lowering& l, const Tensor& a);

// Return the index of each row as [rows, 1], and of each column as [1, columns].
Tensor RowIndex(Lowering& l, const SymInt& rows);
Tensor ColumnIndex(Lowering& l, const SymInt& columns);

Tensor Identity(Lowering& l, DType dtype, const SymInt& rows, const SymInt& columns);

// a = q r, by Householder's reflections with LAPACK's choice of signs.
struct Qr {
  Tensor q;  // [..., rows, kept], orthonormal columns
  Tensor r;  // [..., kept, columns], upper triangle
};

// Returns the factors of a matrix with at least one row and column; `kept` is at least min(rows, columns).
Qr QrOf(Lowering& l, Tensor a, MatrixSizes sizes, int64_t kept);

}  // namespace cotan::aot

#endif  // COTAN_AOT_LOWERING_OPS_SMALL_MATRIX_H_
