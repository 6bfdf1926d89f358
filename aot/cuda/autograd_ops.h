// SPDX-License-Identifier: Apache-2.0

// The ops that autograd adds to the calls of a Function: tangents that the caller does not give, flags of tangents,
// sums of gradients. TensorOps (runtime/autograd/tensor_ops.h) runs them, and makes the same ones.
#ifndef COTAN_AOT_CUDA_AUTOGRAD_OPS_H_
#define COTAN_AOT_CUDA_AUTOGRAD_OPS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "base/layout.h"
#include "kernels/api/kernel.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

struct AutogradOp {
  serialization::Op op;
  std::vector<TensorSpec> inputs;
  TensorSpec output;
};

// Returns the ops for `backward`, the backward of a method with `num_saved` saved values, where `sizes` are the values
// of the artifact's dynamic dimensions:
//   - zeros for each of several tangents, which may be undefined, and ones for a tangent of one element;
//   - both values of the flag of each tangent;
//   - for each gradient, the sum of two of them, and the sum in a row-major leaf's grad() if the layout differs.
// Some may be equal. Sums of gradients of other layouts, and copies of tangents and arguments that do not have the
// planned layout, depend on the caller.
// InvalidArgument, OutOfRange: as DenseLayout() (serialization/schema/tensor_type.h).
absl::StatusOr<std::vector<AutogradOp>> AutogradOps(const serialization::Method& backward, int num_saved,
                                                    const DimVector& sizes);

}  // namespace cotan::aot

#endif  // COTAN_AOT_CUDA_AUTOGRAD_OPS_H_
