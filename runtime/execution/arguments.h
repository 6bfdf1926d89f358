// SPDX-License-Identifier: Apache-2.0

// Checks the caller's tensors against the types of a method's inputs.
#ifndef COTAN_RUNTIME_EXECUTION_ARGUMENTS_H_
#define COTAN_RUNTIME_EXECUTION_ARGUMENTS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/layout.h"
#include "kernels/api/device.h"
#include "kernels/api/kernel.h"
#include "runtime/execution/program.h"
#include "runtime/tensor/tensor.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Returns true if there is one argument per spec, each with the dtype and sizes of its spec and on `device` or the
// host. This is the fast check of repeated calls; see CheckArguments() for the full one.
bool ArgumentsMatch(absl::Span<const TensorSpec> specs, absl::Span<const Tensor* const> arguments,
                    const Device& device);

// Returns true if both layouts place the same elements at the same addresses. Strides are compared only along
// dimensions of size above 1, and not at all if there are no elements.
bool SameGeometry(const StridedLayout& a, const StridedLayout& b);

// Checks the arguments of `method` and returns the values of the artifact's dynamic dimensions, one per
// symbol. `arguments` excludes the first `num_saved` inputs, the saved values of a backward. `known` holds
// the values of the dynamic dimensions if the forward determined them (for a backward), else it is empty. A
// dimension that the method does not use and that no argument determines gets its minimum.
// InvalidArgument: a wrong count, or an argument that is undefined or has a wrong dtype, rank, size or
// device.
// OutOfRange: a dynamic dimension is outside its range.
// The message names the method and the argument, the value found and the value expected.
absl::StatusOr<DimVector> CheckArguments(const Program& program, const serialization::Method& method, int num_saved,
                                         absl::Span<const Tensor> arguments, const Device& device,
                                         absl::Span<const int64_t> known);

}  // namespace cotan

#endif  // COTAN_RUNTIME_EXECUTION_ARGUMENTS_H_
