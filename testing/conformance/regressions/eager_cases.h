// SPDX-License-Identifier: Apache-2.0

// Tables of cases by op, view, dtype and layout. They are compared with LibTorch eager alone,
// without golden facts.
#ifndef COTAN_TESTING_CONFORMANCE_REGRESSIONS_EAGER_CASES_H_
#define COTAN_TESTING_CONFORMANCE_REGRESSIONS_EAGER_CASES_H_

#include <vector>

#include "testing/conformance/regressions/cases.h"

namespace cotan::conformance {

std::vector<ConfCase> StridedViewCases();  // writes through each kind of view
std::vector<ConfCase> InPlaceCases();      // in-place ops, for each dtype
std::vector<ConfCase> ComplexCases();      // arithmetic of complex numbers

std::vector<ConfCase> CustomFunctionCases();  // torch::autograd::Function and hooks in all their forms
std::vector<ConfCase> RewrittenOpCases();     // ops that the compiler writes in terms of others
std::vector<ConfCase> OptionCases();          // layers and losses with options other than the defaults
std::vector<ConfCase> SpecialValueCases();    // NaN, infinities, very large and very small elements
std::vector<ConfCase> HalfCases();            // f16 and bf16 where a half has too few digits or too small a range
std::vector<ConfCase> SmallTensorCases();     // no dimensions, no elements
// Calls that LibTorch refuses: random numbers, other arguments, statistics of batch_norm.
std::vector<ConfCase> RefusedDrawCases();
std::vector<ConfCase> RefusedArgumentCases();
std::vector<ConfCase> RefusedStatisticsCases();

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_REGRESSIONS_EAGER_CASES_H_
