// SPDX-License-Identifier: Apache-2.0

// Random programs for comparison with eager.
#ifndef COTAN_TESTING_CONFORMANCE_FUZZ_GENERATE_PROGRAM_H_
#define COTAN_TESTING_CONFORMANCE_FUZZ_GENERATE_PROGRAM_H_

#include <cstdint>

#include "testing/conformance/fuzz/random_program.h"

namespace cotan::conformance {

// Set of ops and inputs that programs are made of.
enum class ProgramRange : uint8_t {
  // Views, in-place writes, inputs that are views of each other, detached aliases, computations and
  // writes under no_grad, random numbers; f32 only. No program is refused.
  kPlain,
  // All ops of random_ops.h: also dtype views, any storage offset, tensors without elements,
  // `set_`, `data()`, detached inputs, views in all grad modes. Some programs are refused.
  kWide,
};

// Returns a program for which IsDefined() holds. The same seed gives the same program.
RandomProgram GenerateProgram(uint64_t seed, ProgramRange range);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_FUZZ_GENERATE_PROGRAM_H_
