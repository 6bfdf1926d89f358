// SPDX-License-Identifier: Apache-2.0

// Guesses arguments for any op from its schema; most ops accept one of a few guesses. All dimensions of
// all tensors have the same size, so that sizes which must agree do.
#ifndef COTAN_TESTING_OPS_PLAUSIBLE_ARGUMENTS_H_
#define COTAN_TESTING_OPS_PLAUSIBLE_ARGUMENTS_H_

#include <ATen/core/function_schema.h>

#include <vector>

#include "testing/ops/op_runner.h"

namespace cotan::testing {

// Assumptions of a guess.
struct Guess {
  int rank = 2;                       // of tensors
  at::ScalarType dtype = at::kFloat;  // of tensors
  bool whole_sizes = false;           // lists of integers are sizes of a tensor, not of a window
  bool vectors = false;               // weights are vectors
};

// Returns all guesses, the most likely first.
std::vector<Guess> Guesses();

// Returns one argument for each of the schema; values come from LibTorch's generator.
OpArguments PlausibleArguments(const c10::FunctionSchema& schema, const Guess& guess);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_OPS_PLAUSIBLE_ARGUMENTS_H_
