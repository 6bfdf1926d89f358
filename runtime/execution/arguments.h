// Whether the caller's tensors are what a method takes.
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

// Quick check: one tensor per spec, of its dtype and sizes, on `device`.
bool ArgumentsMatch(absl::Span<const TensorSpec> specs, absl::Span<const Tensor* const> arguments,
                    const Device& device);

// The same elements at the same places: strides count only along dimensions
// with more than one index, and not at all if there are no elements.
bool SameGeometry(const StridedLayout& a, const StridedLayout& b);

// Full check of the arguments of `method`, the first `num_saved` inputs left
// out (a backward's saved values), and the values of the artifact's dynamic
// dimensions that follow from them. `known` are these values if they are
// already known (for a backward), else empty. A dimension that the method does
// not use and that no argument gives has its least value.
// InvalidArgument: a wrong count, or an argument that is undefined, of a wrong
// dtype, rank, size or device; OutOfRange: a dynamic dimension outside its
// range. The message names method and argument, what was found and what is
// expected.
absl::StatusOr<DimVector> CheckArguments(const Program& program, const serialization::Method& method, int num_saved,
                                         absl::Span<const Tensor> arguments, const Device& device,
                                         absl::Span<const int64_t> known);

}  // namespace cotan

#endif  // COTAN_RUNTIME_EXECUTION_ARGUMENTS_H_
