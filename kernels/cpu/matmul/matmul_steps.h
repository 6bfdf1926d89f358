// What all matrix products need around the product itself: packing of operands
// that no library reads in place, addends, empty sums.
#ifndef COTAN_KERNELS_CPU_MATMUL_MATMUL_STEPS_H_
#define COTAN_KERNELS_CPU_MATMUL_MATMUL_STEPS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "kernels/api/kernel.h"
#include "kernels/cpu/matmul/matmul_geometry.h"

namespace cotan::cpu {

// What a product adds to: nothing, input 2 as one dense row of n elements, or
// what the output holds.
enum class Addend { kNone, kBias, kInOutput };

// Makes the product itself: a kernel with inputs a, b (and the bias), output
// c. The geometry has no empty size; a and b are dense along rows or columns,
// c along rows, and no batch dimension repeats both a and b.
struct ProductMaker {
  absl::StatusOr<std::unique_ptr<Kernel>> (*make)(const MatmulGeometry& geometry, Addend addend, DType dtype,
                                                  int threads);
  // Whether it can add a bias; else it gets one as kInOutput.
  bool takes_bias;
};

// Strides as a library expects them: a dimension of size 1 has the stride it
// would have if the matrix were dense.
MatrixStrides NormalizeUnitStrides(int64_t rows, int64_t columns, MatrixStrides strides);

// The kernel of a matmul op.
// InvalidArgument: from CheckOp().
absl::StatusOr<std::unique_ptr<Kernel>> MakeMatmulSteps(const KernelRequest& request, const ProductMaker& maker);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_MATMUL_MATMUL_STEPS_H_
