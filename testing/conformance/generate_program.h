// Random programs for comparison with eager.
#ifndef COTAN_TESTING_CONFORMANCE_GENERATE_PROGRAM_H_
#define COTAN_TESTING_CONFORMANCE_GENERATE_PROGRAM_H_

#include <cstdint>

#include "testing/conformance/random_program.h"

namespace cotan::conformance {

// A program that eager runs, backward included, and defines. The same seed gives
// the same program.
RandomProgram GenerateProgram(uint64_t seed);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_GENERATE_PROGRAM_H_
