// SPDX-License-Identifier: Apache-2.0

// Parts of the table of the AOTAutograd corpus.
#ifndef COTAN_TESTING_CONFORMANCE_CORPUS_AOTAUTOGRAD_TABLE_H_
#define COTAN_TESTING_CONFORMANCE_CORPUS_AOTAUTOGRAD_TABLE_H_

#include <vector>

#include "testing/conformance/harness/conf_case.h"

namespace cotan::conformance {

void AppendInputsCases(std::vector<ConfCase>& t);
void AppendAliasedInputsCases(std::vector<ConfCase>& t);
void AppendOutputsCases(std::vector<ConfCase>& t);
void AppendGradientsCases(std::vector<ConfCase>& t);
void AppendTrainingCases(std::vector<ConfCase>& t);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_CORPUS_AOTAUTOGRAD_TABLE_H_
