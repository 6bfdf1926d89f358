// Arguments for any op, guessed from its schema: most ops accept one of a few
// guesses. Every dimension of every tensor has the same size, so that whatever
// has to fit does.
#ifndef COTAN_TESTING_OPS_PLAUSIBLE_ARGUMENTS_H_
#define COTAN_TESTING_OPS_PLAUSIBLE_ARGUMENTS_H_

#include <ATen/core/function_schema.h>

#include <vector>

#include "testing/ops/op_runner.h"

namespace cotan::testing {

// What one guess assumes.
struct Guess {
  int rank = 2;                       // of tensors
  at::ScalarType dtype = at::kFloat;  // of tensors
  bool whole_sizes = false;           // lists of integers are sizes of a tensor, not of a window
  bool vectors = false;               // weights are vectors
};

// From the most to the least likely.
std::vector<Guess> Guesses();

// One argument for each of the schema; values come from LibTorch's generator.
OpArguments PlausibleArguments(const c10::FunctionSchema& schema, const Guess& guess);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_OPS_PLAUSIBLE_ARGUMENTS_H_
