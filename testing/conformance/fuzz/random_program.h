// SPDX-License-Identifier: Apache-2.0

// Small programs with views, in-place writes, inputs that share memory and several outputs, for
// comparison with eager.
#ifndef COTAN_TESTING_CONFORMANCE_FUZZ_RANDOM_PROGRAM_H_
#define COTAN_TESTING_CONFORMANCE_FUZZ_RANDOM_PROGRAM_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "testing/conformance/harness/conf_case.h"

namespace cotan::conformance {

// A step: applies `op` to earlier values; the result is a new value. The result of an in-place op
// is its first argument.
struct RandomStep {
  enum Mode { kCallers, kNoGrad, kEnableGrad, kInference };
  std::string op;                     // "mul", "mul_", "select", ...; see random_ops.cc
  std::vector<int> args = {};         // values
  std::vector<int64_t> numbers = {};  // further arguments, by op
  Mode mode = kCallers;               // how it runs
  int result = 0;                     // the value
};

// A base: an input is a base or a view of one.
struct RandomBase {
  enum Kind { kBuffer, kLeaf, kComputed };
  Kind kind = kBuffer;
  std::vector<int64_t> sizes;
  at::ScalarType dtype = at::kFloat;
};

// Values 0, 1, ... are the inputs; steps refer to each other's results by number, so that a step
// can be omitted together with those that need it.
struct RandomProgram {
  uint64_t seed = 0;
  bool grad = true;  // the mode in which it is called
  std::vector<RandomBase> bases;
  struct Input {
    int base = 0;
    std::vector<RandomStep> views = {};  // a chain of view ops, from the base on
    int same_as = -1;                    // index of the input that is the same tensor, or -1
  };
  std::vector<Input> inputs;
  std::vector<RandomStep> steps;
  std::vector<int> outputs;  // values
};

using ProgramValues = std::map<int, at::Tensor>;

// Runs the step in its own grad mode, or in the current one if it has none. Throws what LibTorch
// throws.
at::Tensor RunStep(const RandomStep& step, const ProgramValues& values);

// Returns new inputs of the program, on new bases. Throws what LibTorch throws.
std::vector<at::Tensor> MakeProgramInputs(const RandomProgram& program);

// Returns the program as a case of the runner; its name contains the seed.
ConfCase CaseOf(const RandomProgram& program);

// Returns the program as Python-like text of several lines:
//
//   b0 = leaf(0, [2, 3]).clone()
//   v0 = b0.select(0, 1)
//   v1 = b0
//   ---
//   v0.mul_(2)
//   return v0, v1
std::string ToText(const RandomProgram& program);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_FUZZ_RANDOM_PROGRAM_H_
