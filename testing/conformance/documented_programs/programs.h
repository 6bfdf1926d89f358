// SPDX-License-Identifier: Apache-2.0

// The programs of docs/conformance.md, with their arguments and with what eager and Cotan do.
#ifndef COTAN_TESTING_CONFORMANCE_DOCUMENTED_PROGRAMS_PROGRAMS_H_
#define COTAN_TESTING_CONFORMANCE_DOCUMENTED_PROGRAMS_PROGRAMS_H_

#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "testing/conformance/documented_programs/documented_program.h"
#include "testing/conformance/harness/case_flags.h"
#include "testing/conformance/harness/compiled_run.h"
#include "testing/conformance/harness/conf_case.h"
#include "testing/conformance/harness/eager_run.h"
#include "testing/conformance/harness/refusal_stage.h"

namespace cotan::conformance {

// Expects what the page says about eager, of a call of the case.
using ExpectEager = std::function<void(const ConfCase& c, const EagerRun& run)>;

// A call of Cotan that differs from eager's.
struct DifferentCall {
  const ConfCase& c;
  CompiledCase& compiled;
  const CompiledRun& run;
  const EagerRun& eager;
};

// A program that eager and Cotan run with different results.
struct KnownDifference {
  std::string code;
  ConfCase c;
  ExpectEager expect_eager;
  std::function<void(const DifferentCall&)> expect_cotan;
};

// A program that Cotan refuses.
struct KnownRefusal {
  std::string code;
  ConfCase c;
  ExpectEager expect_eager;
  Stage stage = Stage::kCompile;
  absl::StatusCode status = absl::StatusCode::kUnimplemented;
  std::string message;  // words of the page; a part of the status, too, unless the stage is kCall
};

// Returns a case named `name` that calls `program`, with gradients enabled and a loss of the results.
inline ConfCase CaseOf(const char* name, std::function<Tensors()> inputs, const ExecutedProgram& program) {
  return WithoutLossInputs(Case(name, "documented", std::move(inputs), program.function));
}

std::vector<KnownDifference> KnownDifferences();
std::vector<KnownRefusal> KnownRefusals();

// For messages of GoogleTest.
inline void PrintTo(const KnownDifference& difference, std::ostream* out) { *out << difference.c.name; }
inline void PrintTo(const KnownRefusal& refusal, std::ostream* out) { *out << refusal.c.name; }

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_DOCUMENTED_PROGRAMS_PROGRAMS_H_
