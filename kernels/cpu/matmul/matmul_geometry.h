// SPDX-License-Identifier: Apache-2.0

// A batched matrix product reduced to as few loops as its strides allow.
#ifndef COTAN_KERNELS_CPU_MATMUL_MATMUL_GEOMETRY_H_
#define COTAN_KERNELS_CPU_MATMUL_MATMUL_GEOMETRY_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "base/layout.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu {

// Strides of a matrix, in elements.
struct MatrixStrides {
  int64_t row;
  int64_t column;
};

// One batch dimension and its strides in a, b and c, in elements; a stride of 0 repeats the matrix.
struct BatchLoop {
  int64_t size;
  int64_t a;
  int64_t b;
  int64_t c;
};

// Offsets of the matrices of one product of a batch, in elements.
struct BatchOffsets {
  int64_t a = 0;
  int64_t b = 0;
  int64_t c = 0;
};

// c[batch..., m, n] = sum over k of a[batch..., m, k] * b[batch..., k, n].
struct MatmulGeometry {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  MatrixStrides a{};
  MatrixStrides b{};
  MatrixStrides c{};
  std::vector<BatchLoop> batch;  // outermost first, none of size 1

  // Returns the number of matrix products: the product of the batch sizes.
  int64_t BatchSize() const;
  // Returns the offsets of product `item` of BatchSize().
  BatchOffsets OffsetsOf(int64_t item) const;
  // Returns the floating point operations of the whole batch: two per multiply-add.
  double Flops() const;
  // Returns true if the result has no element. k == 0 (sums over nothing) does not count.
  bool IsEmpty() const { return m == 0 || n == 0 || BatchSize() == 0; }
};

// Checks a matmul op by CheckOp() and returns its geometry: batch dimensions of size 1 are dropped, adjacent
// ones with compatible strides are merged, and a batch that repeats b becomes rows of a and c where their
// strides allow it.
// InvalidArgument, Unimplemented: from CheckOp().
absl::StatusOr<MatmulGeometry> AnalyzeMatmul(const KernelRequest& request);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_MATMUL_MATMUL_GEOMETRY_H_
