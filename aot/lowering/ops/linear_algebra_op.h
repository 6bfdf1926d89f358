// SPDX-License-Identifier: Apache-2.0

// The op of the runtime that decomposes matrices [..., rows, columns] and solves with them (LinearAlgebra of
// program.proto), for matrices that are not unrolled (small_matrix.h). Batches broadcast.
#ifndef COTAN_AOT_LOWERING_OPS_LINEAR_ALGEBRA_OP_H_
#define COTAN_AOT_LOWERING_OPS_LINEAR_ALGEBRA_OP_H_

#include "aot/lowering/ops/lowering.h"

namespace cotan::aot::linear_algebra_op {

struct Eigen {
  Tensor values;   // [..., N], ascending
  Tensor vectors;  // [..., N, N], in columns; undefined unless asked for
};

// Decomposes the symmetric matrix of which `a` has the upper or the lower triangle.
Eigen Eigh(Lowering& l, const Tensor& a, bool upper, bool has_vectors);

struct Svd {
  Tensor u;       // [..., M, K], with full_matrices [..., M, M]; undefined unless asked for
  Tensor values;  // [..., K], descending
  Tensor vh;      // [..., K, N], with full_matrices [..., N, N]; undefined unless asked for
};

Svd SvdOf(Lowering& l, const Tensor& a, bool has_vectors, bool full_matrices);

struct Qr {
  Tensor q;  // [..., M, K], with full_matrices [..., M, M]
  Tensor r;  // [..., K, N], with full_matrices [..., M, N]
};

Qr QrOf(Lowering& l, const Tensor& a, bool full_matrices);

struct Lu {
  Tensor factors;  // [..., M, N]
  Tensor pivots;   // i32 [..., K], from 1
  Tensor info;     // i32 [...]
};

Lu LuOf(Lowering& l, const Tensor& a);

// Solves A x = b, or A^T x = b with `transpose`, for the A of an LU.
Tensor SolveByLu(Lowering& l, const Tensor& factors, const Tensor& pivots, const Tensor& b, bool transpose);

struct Cholesky {
  Tensor factor;  // [..., N, N], in the triangle that was read
  Tensor info;    // i32 [...]
};

Cholesky CholeskyOf(Lowering& l, const Tensor& a, bool upper);

struct Triangle {
  bool upper = false;
  bool unit = false;  // the diagonal counts as ones
};

// Solves a x = b, or a^T x = b with `transpose`, for the triangle of `a`.
Tensor SolveTriangle(Lowering& l, const Tensor& a, const Tensor& b, const Triangle& triangle, bool transpose);

}  // namespace cotan::aot::linear_algebra_op

#endif  // COTAN_AOT_LOWERING_OPS_LINEAR_ALGEBRA_OP_H_
