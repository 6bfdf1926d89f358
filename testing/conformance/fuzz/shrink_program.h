// SPDX-License-Identifier: Apache-2.0

// Reduces a failing program.
#ifndef COTAN_TESTING_CONFORMANCE_FUZZ_SHRINK_PROGRAM_H_
#define COTAN_TESTING_CONFORMANCE_FUZZ_SHRINK_PROGRAM_H_

#include <functional>

#include "testing/conformance/fuzz/random_program.h"

namespace cotan::conformance {

// Returns a program for which `fails` holds, as it does for `program`, and which is minimal: no
// step, output or input can be omitted. `fails` is called only with programs for which IsDefined()
// holds.
RandomProgram Shrink(RandomProgram program, const std::function<bool(const RandomProgram&)>& fails);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_FUZZ_SHRINK_PROGRAM_H_
