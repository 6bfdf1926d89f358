// SPDX-License-Identifier: Apache-2.0

// Evaluates methods op by op with the reference kernels, as a reference for the planner: each value has dense memory of
// its own, views are copies, and updates happen after the last op.
#ifndef COTAN_TESTING_FUZZ_METHOD_EVALUATOR_H_
#define COTAN_TESTING_FUZZ_METHOD_EVALUATOR_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/testing/host_tensor.h"
#include "serialization/schema/program.pb.h"

namespace cotan::testing {

// Row-major tensors.
using DenseTensors = std::vector<std::shared_ptr<const HostTensor>>;

struct MethodResults {
  DenseTensors outputs;                      // one per Method.outputs
  DenseTensors states;                       // after the call; one per state of the artifact
  DenseTensors inputs;                       // after the call; one per Method.inputs
  std::vector<std::vector<double>> effects;  // elements of each effect's input, in order
};

// Evaluates `method` on `inputs` and `states` for these values of the dynamic dimensions. Methods have no blocks,
// complex numbers, input updates that set a storage, or views of another dtype.
// Errors of the reference kernels. Unimplemented: a view of a kind that is not evaluated.
absl::StatusOr<MethodResults> EvaluateMethod(const serialization::Method& method, absl::Span<const int64_t> symbols,
                                             const DenseTensors& inputs, const DenseTensors& states);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_FUZZ_METHOD_EVALUATOR_H_
