// A matrix product in the terms of BLAS: column-major matrices with leading
// dimensions, equally spaced batches. Knows no GPU, so that its tests need
// none.
#ifndef COTAN_KERNELS_CUDA_MATMUL_PLAN_H_
#define COTAN_KERNELS_CUDA_MATMUL_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "kernels/api/kernel.h"

namespace cotan::cuda {

// An operand in column-major order: element (row, column) of batch b lies at
// b * batch_stride + column * leading_dimension + row. All in elements.
struct BlasMatrix {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t leading_dimension = 0;
  int64_t batch_stride = 0;
  bool transposed = false;  // the product uses the transpose of what is stored
};

// Where one call's operands start, in elements from the op's pointers.
struct MatmulOffsets {
  int64_t lhs = 0;
  int64_t rhs = 0;
  int64_t addend = 0;
  int64_t output = 0;
};

// What input 2 of the op adds.
enum class MatmulAddend : uint8_t {
  kNone,
  kBias,    // one value per column of the op's output
  kMatrix,  // a matrix as large as the output's, in each batch
};

// A row-major output is a column-major transposed one, and (A B)^T = B^T A^T:
// the calls compute output^T = rhs^T lhs^T. Hence `a` describes the op's input
// 1, `b` its input 0, and m is the number of the output's columns.
struct MatmulPlan {
  DType dtype = DType::kUndefined;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t batch = 1;  // matrices per call
  BlasMatrix a;
  BlasMatrix b;
  BlasMatrix c;  // the addend if it is a matrix
  BlasMatrix d;  // the output
  MatmulAddend addend = MatmulAddend::kNone;
  int64_t bias_batch_stride = 0;
  // One per call. Empty if the output has no elements.
  std::vector<MatmulOffsets> calls;
};

// `request.op` is a Matmul.
// InvalidArgument: as CheckOp(), or the op has an epilogue.
// Unimplemented: an operand that BLAS cannot address (neither of its last two
// dimensions is contiguous; an output that is not row-major), an addend
// broadcast along columns, or an addend with K = 0. The message says which.
absl::StatusOr<MatmulPlan> PlanMatmul(const KernelRequest& request);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_MATMUL_PLAN_H_
