// SPDX-License-Identifier: Apache-2.0

// Declares the tables that OpCases() concatenates.
#ifndef COTAN_TESTING_OPS_OP_CASE_GROUPS_H_
#define COTAN_TESTING_OPS_OP_CASE_GROUPS_H_

#include <string>
#include <vector>

#include "testing/ops/op_arguments.h"
#include "testing/ops/op_cases.h"

namespace cotan::testing {

std::vector<OpCase> PointwiseCases();
std::vector<OpCase> ReductionCases();
std::vector<OpCase> CompositeCases();
std::vector<OpCase> FurtherCompositeCases();
std::vector<OpCase> CreationCases();
std::vector<OpCase> ScanCases();
std::vector<OpCase> KernelCases();
std::vector<OpCase> FurtherKernelCases();
std::vector<OpCase> ViewCases();
std::vector<OpCase> ViewAndCreationCases();
std::vector<OpCase> ResizeCases();
std::vector<OpCase> EmbeddingBagCases();
std::vector<OpCase> PaddingCases();
std::vector<OpCase> WindowCases();
std::vector<OpCase> FurtherIndexingCases();
std::vector<OpCase> SortingCases();
std::vector<OpCase> SpecialCases();
std::vector<OpCase> LinearAlgebraCases();
std::vector<OpCase> RewrittenCases();
std::vector<OpCase> RandomCases();
std::vector<OpCase> RefusedCases();

}  // namespace cotan::testing

#endif  // COTAN_TESTING_OPS_OP_CASE_GROUPS_H_
