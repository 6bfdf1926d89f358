// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/regressions/cases.h"

std::vector<ConfCase> build_table() {
  using namespace cotan::conformance;
  std::vector<ConfCase> table;
  for (const auto cases : {RequiresGradCases,
                           ViewCases,
                           MutationCases,
                           SequenceCases,
                           SharedInputCases,
                           ConjugateCases,
                           NumberCases,
                           OpCases,
                           OutputCases,
                           SharedMemoryCases,
                           StorageCases,
                           ElementCases,
                           ModeCases,
                           DerivativeCases,
                           WrittenInputCases,
                           InputAliasCases,
                           IntermediateAliasCases,
                           MergedInputCases,
                           TrainingCases,
                           CombinationCases,
                           MetadataMutationCases}) {
    for (ConfCase& c : cases()) table.push_back(std::move(c));
  }
  return table;
}
