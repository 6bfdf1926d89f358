// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/regressions/eager_cases.h"

std::vector<ConfCase> build_table() {
  using namespace cotan::conformance;
  std::vector<ConfCase> table;
  for (const auto cases : {StridedViewCases, InPlaceCases, ComplexCases}) {
    for (ConfCase& c : cases()) table.push_back(std::move(c));
  }
  return table;
}
