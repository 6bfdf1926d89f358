// The recorded runs of an artifact, as calls of a session.
#ifndef COTAN_RUNTIME_TOOLS_REFERENCES_H_
#define COTAN_RUNTIME_TOOLS_REFERENCES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/api/device.h"
#include "runtime/program.h"
#include "runtime/tensor.h"
#include "serialization/program.pb.h"

namespace cotan::tools {

// A recorded tensor on the host. ResourceExhausted.
absl::StatusOr<Tensor> LoadTensor(const Program& program, const serialization::ReferenceTensor& reference);

// The recorded arguments of a call, on `device`. ResourceExhausted, or errors
// of the device.
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

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_REFERENCES_H_
