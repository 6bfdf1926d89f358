// SPDX-License-Identifier: Apache-2.0

// Compiles cases of a table.
#ifndef COTAN_TESTING_CONFORMANCE_HARNESS_COMPILED_CASE_H_
#define COTAN_TESTING_CONFORMANCE_HARNESS_COMPILED_CASE_H_

#include <string>

#include "absl/status/statusor.h"
#include "aot/partitioner/partition.h"
#include "testing/conformance/harness/conf_case.h"

namespace cotan::conformance {

// Compiles the case with fresh inputs, in its grad mode. Returns the bytes of an artifact with the
// methods "forward" and, if an output requires grad, "backward". Errors: those of the compiler;
// Internal if the case throws.
absl::StatusOr<std::string> CompileCase(const ConfCase& c, bool keep_input_mutations,
                                        const aot::PartitionOptions& partition = {});

// As CompileCase(), but with every size of the inputs dynamic (DynamicDimsOf()) and input mutations
// outside of the program.
absl::StatusOr<std::string> CompileDynamic(const ConfCase& c);

// As CompileCase(), with input mutations outside of the program, and with the recorded runs of the inputs.
absl::StatusOr<std::string> CompileRecorded(const ConfCase& c);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_HARNESS_COMPILED_CASE_H_
