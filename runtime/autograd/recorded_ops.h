// SPDX-License-Identifier: Apache-2.0

// The arithmetic of a backward that is itself recorded (create_graph): operations on Variables with nodes.
#ifndef COTAN_RUNTIME_AUTOGRAD_RECORDED_OPS_H_
#define COTAN_RUNTIME_AUTOGRAD_RECORDED_OPS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/tensor_ops.h"
#include "runtime/autograd/variable.h"
#include "runtime/tensor/tensor.h"

namespace cotan::autograd {

// Returns a variable over `result`, which was computed from `inputs`, with grad_fn `node`, to which it adds the edges
// to `inputs`. Without grad_fn if gradients are disabled or no input requires grad. FailedPrecondition: as
// Variable::GradientEdge().
absl::StatusOr<Variable> WithHistory(Tensor result, absl::Span<const Variable> inputs, std::shared_ptr<Node> node);

// Returns the tensors of variables; undefined ones for undefined variables.
std::vector<Tensor> TensorsOf(absl::Span<const Variable> variables);

// The functions below are those of TensorOps, recorded if gradients are enabled. All variables must be defined. Errors:
// as TensorOps and as Variable::GradientEdge().

// Returns a + b. The dtypes and sizes must be equal.
absl::StatusOr<Variable> RecordedAdd(TensorOps& ops, const Variable& a, const Variable& b);
// Returns a row-major copy.
absl::StatusOr<Variable> RecordedClone(TensorOps& ops, const Variable& variable);
// Returns a copy with `layout`, whose sizes are those of the variable.
absl::StatusOr<Variable> RecordedCloneAs(TensorOps& ops, const Variable& variable, const StridedLayout& layout);
// Returns `variable` if it has the dtype already, else a copy with that dtype.
absl::StatusOr<Variable> RecordedCast(TensorOps& ops, const Variable& variable, DType dtype);
// Returns the sum over the dimensions that broadcasting from `sizes` adds or expands; `variable` if there are none.
absl::StatusOr<Variable> RecordedSumTo(TensorOps& ops, const Variable& variable, absl::Span<const int64_t> sizes);

}  // namespace cotan::autograd

#endif  // COTAN_RUNTIME_AUTOGRAD_RECORDED_OPS_H_
