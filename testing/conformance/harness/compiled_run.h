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

// Returns the options of a session on the host with one thread.
SessionOptions OnHost();

// A loaded artifact, with a session whose device has the arguments and the results.
class CompiledCase {
 public:
  // Errors of Program::LoadBytes(), Session::Create() and Function::Create().
  static absl::StatusOr<CompiledCase> Load(std::string artifact, const SessionOptions& options = OnHost());

  // Returns the Philox state of the next call; nullopt if the program draws no random numbers.
  std::optional<PhiloxState> rng() const;

  // Calls the function on fresh inputs and waits for the results, so that errors of values that a device reports
  // later are errors of the call.
  absl::StatusOr<CompiledRun> Run(const ConfCase& c);

  // Returns the gradients of the loss of `terms`. The tangents are those of `eager`, a run of the
  // same case.
  absl::StatusOr<GradFacts> Backward(const ConfCase& c, const CompiledRun& run, const EagerRun& eager,
                                     const std::vector<int>& terms);

 private:
  CompiledCase(Session session, Function function, Device& device)
      : session_(std::move(session)), function_(std::move(function)), device_(device) {}

  Session session_;
  Function function_;
  Device& device_;
};

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_HARNESS_COMPILED_RUN_H_
