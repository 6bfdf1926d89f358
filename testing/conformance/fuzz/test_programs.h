// SPDX-License-Identifier: Apache-2.0

// Programs for tests.
#ifndef COTAN_TESTING_CONFORMANCE_FUZZ_TEST_PROGRAMS_H_
#define COTAN_TESTING_CONFORMANCE_FUZZ_TEST_PROGRAMS_H_

#include <string>

#include "absl/algorithm/container.h"
#include "testing/conformance/fuzz/random_program.h"

namespace cotan::conformance {

inline bool HasStep(const RandomProgram& program, const std::string& op) {
  return absl::c_any_of(program.steps, [&](const RandomStep& step) { return step.op == op; });
}

// Returns a program with two bases, three inputs (one of them a view), and a step of each kind.
inline RandomProgram MultiplyRowOfInput() {
  RandomProgram program;
  program.bases = {{RandomBase::kComputed, {2, 3}}, {RandomBase::kBuffer, {6}}};
  program.inputs = {{.base = 0}, {.base = 1}, {.base = 0, .views = {{.op = "t", .args = {0}}}}};
  program.steps = {{.op = "sin", .args = {1}, .result = 3},
                   {.op = "select", .args = {2}, .numbers = {0, 1}, .result = 4},
                   {.op = "mul_", .args = {4}, .numbers = {1}, .mode = RandomStep::kNoGrad, .result = 5},
                   {.op = "add_tensors", .args = {3, 1}, .result = 6}};
  program.outputs = {6, 4, 2};
  return program;
}

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_FUZZ_TEST_PROGRAMS_H_
