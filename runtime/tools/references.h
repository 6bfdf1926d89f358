// SPDX-License-Identifier: Apache-2.0

// Loads the recorded runs of an artifact and compares results with them.
#ifndef COTAN_RUNTIME_TOOLS_REFERENCES_H_
#define COTAN_RUNTIME_TOOLS_REFERENCES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/api/device.h"
#include "runtime/execution/program.h"
#include "runtime/tensor/tensor.h"
#include "serialization/schema/program.pb.h"

namespace cotan::tools {

// Returns a recorded tensor on the host.
// FailedPrecondition: the program was loaded without recorded runs.
// DataLoss: the recorded data is damaged.
// ResourceExhausted: the host has not enough memory.
absl::StatusOr<Tensor> LoadTensor(const Program& program, const serialization::ReferenceTensor& reference);

// Returns the recorded arguments of a call on `device`. Errors of LoadTensor() and of the device.
absl::StatusOr<std::vector<Tensor>> LoadArguments(const Program& program, const serialization::Reference& reference,
                                                  Device& device);

// Returns the first recorded run of a method. NotFound: there is none.
absl::StatusOr<const serialization::Reference*> FindReference(const Program& program, absl::string_view method);

// The largest |actual - expected|, infinity if only one of two elements is NaN, and the largest |expected|.
struct Difference {
  double largest_error = 0;
  double largest_expected = 0;
};
// Compares two host tensors of equal dtype and sizes.
absl::StatusOr<Difference> Compare(const Tensor& actual, const Tensor& expected);

// Returns "bn.running_var" for "bn.running_mean", and an empty name for a state that is not a running mean.
std::string RunningVarianceOf(absl::string_view state);

// Returns the smallest scale on which a running mean is compared: a fraction of the standard deviation of the
// averaged values. A mean that is zero up to rounding, such as that of normalized values, is noise of that
// size and has no scale itself. `largest_variance` is the largest element of the running variance of the same
// layer.
double RunningMeanScale(double largest_variance);

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_REFERENCES_H_
