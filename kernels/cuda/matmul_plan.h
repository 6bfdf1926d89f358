// SPDX-License-Identifier: Apache-2.0

// Plans a matmul as BLAS calls: column-major matrices with leading dimensions, and batches of constant
// stride. Independent of CUDA, so that it is tested on the host.
#ifndef COTAN_KERNELS_CUDA_MATMUL_PLAN_H_
#define COTAN_KERNELS_CUDA_MATMUL_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "kernels/api/kernel.h"

namespace cotan::cuda {

// An operand in column-major order: element (row, column) of batch b is stored at b * batch_stride + column *
// leading_dimension + row. All in elements.
struct BlasMatrix {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t leading_dimension = 0;
  int64_t batch_stride = 0;
  bool transposed = false;  // the product uses the transpose of what is stored
};

// The offsets of one call's operands, in elements from the op's pointers.
struct MatmulOffsets {
  int64_t lhs = 0;
  int64_t rhs = 0;
  int64_t addend = 0;
  int64_t output = 0;
};

// The addend of the product, input 2 of the op.
enum class MatmulAddend : uint8_t {
  kNone,
  kBias,    // one value per column of the op's output
  kMatrix,  // a matrix as large as the output's, in each batch
};

// The BLAS calls of one matmul. A row-major matrix is the transpose of a column-major one, and (A B)^T = B^T
// A^T, so the calls compute output^T = rhs^T lhs^T: `a` describes the op's input 1, `b` its input 0, and m is
// the number of columns of the output.
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

// Plans `request.op`, a Matmul.
// InvalidArgument: as CheckOp(), or the op has an epilogue.
// Unimplemented: BLAS cannot address an operand (neither of its last two dimensions is contiguous, or the
// output is not row-major), the addend is broadcast along columns, or there is an addend and K = 0. The
// message names the reason.
absl::StatusOr<MatmulPlan> PlanMatmul(const KernelRequest& request);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_MATMUL_PLAN_H_
