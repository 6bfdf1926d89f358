// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/corpus/aotautograd_table.h"

std::vector<ConfCase> build_table() {
  using namespace cotan::conformance;
  std::vector<ConfCase> t;
  AppendGradientsCases(t);
  AppendCustomFunctionCases(t);
  AppendDataMutationCases(t);
  AppendMetadataMutationCases(t);
  AppendInputAliasOutputsCases(t);
  AppendIntermediateAliasOutputsCases(t);
  AppendPlainOutputsCases(t);
  AppendAliasedInputsCases(t);
  AppendTrainingCases(t);
  return t;
}
