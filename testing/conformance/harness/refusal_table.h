// SPDX-License-Identifier: Apache-2.0

// Functions that the reference refuses to compile or to export, and a few that it accepts, with the
// part that Cotan's message has to contain.
#ifndef COTAN_TESTING_CONFORMANCE_HARNESS_REFUSAL_TABLE_H_
#define COTAN_TESTING_CONFORMANCE_HARNESS_REFUSAL_TABLE_H_

#include <functional>
#include <vector>

#include "testing/conformance/harness/conf_case.h"

namespace cotan::conformance {

struct RefusalCase {
  const char* name;  // as in the golden, which has the entry point and options
  std::function<std::vector<at::Tensor>()> inputs;
  std::function<std::vector<at::Tensor>(std::vector<at::Tensor>)> f;
  // Part of the message; "": the function is accepted, also if the reference refuses it.
  const char* message;
};

std::vector<RefusalCase> RefusalTable();

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_HARNESS_REFUSAL_TABLE_H_
