// SPDX-License-Identifier: Apache-2.0

// Lists calls of each function of torch::nn::functional.
#ifndef COTAN_TESTING_OPS_FUNCTIONAL_CASES_H_
#define COTAN_TESTING_OPS_FUNCTIONAL_CASES_H_

#include <string>
#include <vector>

#include "aot/capture/traced_function.h"
#include "testing/ops/op_arguments.h"

namespace cotan::testing {

struct FunctionalCase {
  std::string function;  // "conv2d"
  std::vector<Arg> inputs;
  aot::TensorFunction call;
  bool random = false;
};

// Returns the cases, sorted by function.
std::vector<FunctionalCase> FunctionalCases();

}  // namespace cotan::testing

#endif  // COTAN_TESTING_OPS_FUNCTIONAL_CASES_H_
