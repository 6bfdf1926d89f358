// SPDX-License-Identifier: Apache-2.0

// Runs a case through a serialized artifact and the runtime.
#ifndef COTAN_TESTING_CONFORMANCE_HARNESS_COMPILED_RUN_H_
#define COTAN_TESTING_CONFORMANCE_HARNESS_COMPILED_RUN_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/function.h"
#include "runtime/session.h"
#include "testing/conformance/harness/call_facts.h"
#include "testing/conformance/harness/conf_case.h"
#include "testing/conformance/harness/eager_run.h"
#include "testing/conformance/harness/mirror.h"

namespace cotan::conformance {

// One call.
struct CompiledRun {
  MirroredInputs in;
  std::vector<FunctionResult> outputs;
  CallFacts facts;
};

// A loaded artifact.
class CompiledCase {
 public:
  static absl::StatusOr<CompiledCase> Load(std::string artifact);

  // Returns the Philox state of the next call; nullopt if the program draws no random numbers.
  std::optional<PhiloxState> rng() const;

  // Calls the function on fresh inputs.
  absl::StatusOr<CompiledRun> Run(const ConfCase& c);

  // Returns the gradients of the loss of `terms`. The tangents are those of `eager`, a run of the
  // same case.
  absl::StatusOr<GradFacts> Backward(const ConfCase& c, const CompiledRun& run, const EagerRun& eager,
                                     const std::vector<int>& terms);

 private:
  CompiledCase(Session session, Function function) : session_(std::move(session)), function_(std::move(function)) {}

  Session session_;
  Function function_;
};

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_HARNESS_COMPILED_RUN_H_
