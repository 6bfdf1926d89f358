// The recorded runs of an artifact, as calls of a session.
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

// A recorded tensor on the host. FailedPrecondition: the program was loaded without
// recorded runs. DataLoss: damaged. ResourceExhausted.
absl::StatusOr<Tensor> LoadTensor(const Program& program, const serialization::ReferenceTensor& reference);

// The recorded arguments of a call, on `device`. Errors of LoadTensor() and of the
// device.
absl::StatusOr<std::vector<Tensor>> LoadArguments(const Program& program, const serialization::Reference& reference,
                                                  Device& device);

// The first recorded run of a method. NotFound: there is none.
absl::StatusOr<const serialization::Reference*> FindReference(const Program& program, absl::string_view method);

// The largest |actual - expected| and the largest |expected|, infinity where one
// of two is NaN. Both are on the host, of one dtype and equal sizes.
struct Difference {
  double largest_error = 0;
  double largest_expected = 0;
};
absl::StatusOr<Difference> Compare(const Tensor& actual, const Tensor& expected);

// Returns "bn.running_var" for "bn.running_mean", and an empty name for a state
// that is no running mean.
std::string RunningVarianceOf(absl::string_view state);

// Returns the smallest scale on which a running mean is compared: a part of the
// standard deviation of what was averaged. A mean that is 0 but for rounding, such
// as that of normalized values, is noise of that size, and has no scale of its own.
// `largest_variance`: of the running variance of the same layer.
double RunningMeanScale(double largest_variance);

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_REFERENCES_H_
