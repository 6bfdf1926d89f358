// SPDX-License-Identifier: Apache-2.0

// The steps around a matrix product: packing of operands that the product cannot read in place, addends,
// empty sums.
#ifndef COTAN_KERNELS_CPU_MATMUL_MATMUL_STEPS_H_
#define COTAN_KERNELS_CPU_MATMUL_MATMUL_STEPS_H_

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "kernels/api/kernel.h"
#include "kernels/cpu/matmul/matmul_geometry.h"

namespace cotan::cpu {

// The addend of a product: none, input 2 as one dense row of n elements, or the contents of the output.
enum class Addend { kNone, kBias, kInOutput };

// Makes the kernel of the product alone, with inputs a, b (and the bias) and output c. No size of the
// geometry is 0; a and b are dense along rows or columns, c along rows, and no batch dimension repeats both a
// and b.
struct ProductMaker {
  absl::FunctionRef<absl::StatusOr<std::unique_ptr<Kernel>>(const MatmulGeometry& geometry, Addend addend, DType dtype,
                                                            int threads)>
      make;
  // True if `make` accepts Addend::kBias. Otherwise the bias is first copied to the output (kInOutput).
  bool takes_bias;
};

// Returns strides in the form that libraries expect: a dimension of size 1 gets the stride that it has in a
// dense matrix.
MatrixStrides NormalizeUnitStrides(int64_t rows, int64_t columns, MatrixStrides strides);

// Returns the geometry with the strides of its matrices in that form.
MatmulGeometry WithUnitStrides(MatmulGeometry geometry);

// Returns the geometry of c^T = b^T a^T.
MatmulGeometry TransposedProduct(const MatmulGeometry& geometry);

// Returns true if the rows are dense and do not overlap.
bool IsRowMajor(int64_t columns, MatrixStrides strides);

// Returns true if some batch dimension repeats both matrices.
bool RepeatsProducts(const MatmulGeometry& geometry);

// Returns the kernel of a matmul op without an epilogue.
// InvalidArgument: from CheckOp().
absl::StatusOr<std::unique_ptr<Kernel>> MakeMatmulSteps(const KernelRequest& request, const ProductMaker& maker);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_MATMUL_MATMUL_STEPS_H_
