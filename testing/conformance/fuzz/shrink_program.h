// Smaller programs in which what failed still fails.
#ifndef COTAN_TESTING_CONFORMANCE_FUZZ_SHRINK_PROGRAM_H_
#define COTAN_TESTING_CONFORMANCE_FUZZ_SHRINK_PROGRAM_H_

#include <functional>

#include "testing/conformance/fuzz/random_program.h"

namespace cotan::conformance {

// A smaller program for which `fails` still holds, as it does for `program`:
// no step, output or input can be left out. `fails` is only asked about
// programs that eager runs, and defines.
RandomProgram Shrink(RandomProgram program, const std::function<bool(const RandomProgram&)>& fails);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_FUZZ_SHRINK_PROGRAM_H_
