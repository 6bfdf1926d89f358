// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/corpus/aotautograd_table.h"

std::vector<ConfCase> build_table() {
  using namespace cotan::conformance;
  std::vector<ConfCase> t;
  AppendGradientsCases(t);
  AppendInputsCases(t);
  AppendOutputsCases(t);
  AppendAliasedInputsCases(t);
  AppendTrainingCases(t);
  return t;
}
