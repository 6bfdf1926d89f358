// Compiles cases of a table.
#ifndef COTAN_TESTING_CONFORMANCE_HARNESS_COMPILED_CASE_H_
#define COTAN_TESTING_CONFORMANCE_HARNESS_COMPILED_CASE_H_

#include <string>

#include "absl/status/statusor.h"
#include "testing/conformance/harness/conf_case.h"

namespace cotan::conformance {

// The bytes of an artifact with the methods "forward" and, if anything requires
// grad, "backward": compiled with fresh inputs, in the grad mode of the case.
// Errors: of the compiler, and Internal for what a case throws.
absl::StatusOr<std::string> CompileCase(const ConfCase& c, bool keep_input_mutations);

// The same with every size of the inputs dynamic, as by DynamicDimsOf(), and
// input mutations outside of the program.
absl::StatusOr<std::string> CompileDynamic(const ConfCase& c);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_HARNESS_COMPILED_CASE_H_
