// SPDX-License-Identifier: Apache-2.0

// Lists ops whose gradients are compared with finite differences of their results: a sample of every
// family.
#ifndef COTAN_TESTING_OPS_FINITE_DIFFERENCE_CASES_H_
#define COTAN_TESTING_OPS_FINITE_DIFFERENCE_CASES_H_

#include <ostream>
#include <string>
#include <vector>

#include "testing/ops/op_cases.h"

namespace cotan::testing {

struct FiniteDifferenceGroup {
  std::string family;
  // Arguments at which the op is smooth.
  std::vector<OpCase> cases;
};

inline void PrintTo(const FiniteDifferenceGroup& group, std::ostream* out) { *out << group.family; }

std::vector<FiniteDifferenceGroup> FiniteDifferenceCases();

}  // namespace cotan::testing

#endif  // COTAN_TESTING_OPS_FINITE_DIFFERENCE_CASES_H_
