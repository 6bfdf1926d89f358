// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_TESTING_FUZZ_VALID_PROGRAM_H_
#define COTAN_TESTING_FUZZ_VALID_PROGRAM_H_

#include "runtime/testing/program_builder.h"
#include "testing/fuzz/choices.h"

namespace cotan::testing {

// Returns a valid program of one or two methods that share states: ops of most kinds over views, dynamic dimensions and
// orders of dimensions, updates of states and arguments, prints. Its symbol s0 is in [1, kMaxSymbol]. All elements are
// small integers if those of arguments and states are in [-3, 3] (bool: 0 or 1): see method_writer.h.
ProgramBuilder ValidProgram(Choices& choices);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_FUZZ_VALID_PROGRAM_H_
