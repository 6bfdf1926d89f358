// SPDX-License-Identifier: Apache-2.0

// The parts of the AOTAutograd corpus, in the order of the table.
#ifndef COTAN_TESTING_CONFORMANCE_CORPUS_AOTAUTOGRAD_TABLE_H_
#define COTAN_TESTING_CONFORMANCE_CORPUS_AOTAUTOGRAD_TABLE_H_

#include <vector>

#include "testing/conformance/harness/conf_case.h"

namespace cotan::conformance {

void AppendGradientsCases(std::vector<ConfCase>& t);
void AppendCustomFunctionCases(std::vector<ConfCase>& t);
void AppendDataMutationCases(std::vector<ConfCase>& t);
void AppendMetadataMutationCases(std::vector<ConfCase>& t);
void AppendInputAliasOutputsCases(std::vector<ConfCase>& t);
void AppendIntermediateAliasOutputsCases(std::vector<ConfCase>& t);
void AppendPlainOutputsCases(std::vector<ConfCase>& t);
void AppendAliasedInputsCases(std::vector<ConfCase>& t);
void AppendTrainingCases(std::vector<ConfCase>& t);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_CORPUS_AOTAUTOGRAD_TABLE_H_
