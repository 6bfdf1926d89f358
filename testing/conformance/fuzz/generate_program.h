// Random programs for comparison with eager.
#ifndef COTAN_TESTING_CONFORMANCE_FUZZ_GENERATE_PROGRAM_H_
#define COTAN_TESTING_CONFORMANCE_FUZZ_GENERATE_PROGRAM_H_

#include <cstdint>

#include "testing/conformance/fuzz/random_program.h"

namespace cotan::conformance {

// What programs are made of.
enum class ProgramRange : uint8_t {
  // Views, writes in place, inputs that are views of each other, detached aliases,
  // computations and writes under no_grad, random numbers: of f32. Nothing is refused.
  kPlain,
  // All ops of random_ops.h: also several dtypes of the same elements, any place in
  // memory, none, `set_`, `data()`, detached inputs, views in all grad modes. Some
  // are refused.
  kWide,
};

// A program that eager runs, backward included, and defines. The same seed gives
// the same program.
RandomProgram GenerateProgram(uint64_t seed, ProgramRange range);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_FUZZ_GENERATE_PROGRAM_H_
