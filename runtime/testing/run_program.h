// SPDX-License-Identifier: Apache-2.0

// Runs everything in a program, for tests with hostile artifacts.
#ifndef COTAN_RUNTIME_TESTING_RUN_PROGRAM_H_
#define COTAN_RUNTIME_TESTING_RUN_PROGRAM_H_

#include <cstdint>
#include <memory>

#include "runtime/execution/program.h"

namespace cotan::testing {

// How many calls succeeded.
struct RunCounts {
  int methods = 0;    // Session::Run()
  int functions = 0;  // Function::Call()
  int backwards = 0;  // autograd::Backward() from all their results
};

// Calls each method, each function and its backward in a session with one thread and a MiB of memory. Arguments have
// the declared types with dynamic dimensions of `size`, and bytes 1, up to the first of more than 10,000 elements.
// Programs with an expression over more than 10,000 elements are skipped: how long a program runs is not limited by its
// size.
RunCounts RunProgram(const std::shared_ptr<const Program>& program, int64_t size);

}  // namespace cotan::testing

#endif  // COTAN_RUNTIME_TESTING_RUN_PROGRAM_H_
