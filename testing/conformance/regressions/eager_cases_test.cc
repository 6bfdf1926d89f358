// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/regressions/eager_cases.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "testing/conformance/harness/modes.h"

// Prints the name of a case in gtest's messages.
void PrintTo(const ConfCase& c, std::ostream* out) { *out << c.name; }

namespace cotan::conformance {
namespace {

class EagerCaseTest : public testing::TestWithParam<ConfCase> {};

TEST_P(EagerCaseTest, AgreesWithEager) {
  at::set_num_threads(1);
  Differences differences;
  CheckProgram(GetParam(), differences);
  EXPECT_TRUE(differences.none()) << differences.first();
}

std::string NameOf(const testing::TestParamInfo<ConfCase>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(StridedViews, EagerCaseTest, testing::ValuesIn(StridedViewCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(InPlace, EagerCaseTest, testing::ValuesIn(InPlaceCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(ComplexNumbers, EagerCaseTest, testing::ValuesIn(ComplexCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(CustomFunctions, EagerCaseTest, testing::ValuesIn(CustomFunctionCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(RewrittenOps, EagerCaseTest, testing::ValuesIn(RewrittenOpCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(Options, EagerCaseTest, testing::ValuesIn(OptionCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(SpecialValues, EagerCaseTest, testing::ValuesIn(SpecialValueCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(Halves, EagerCaseTest, testing::ValuesIn(HalfCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(SmallTensors, EagerCaseTest, testing::ValuesIn(SmallTensorCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(RefusedDraws, EagerCaseTest, testing::ValuesIn(RefusedDrawCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(RefusedArguments, EagerCaseTest, testing::ValuesIn(RefusedArgumentCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(RefusedStatistics, EagerCaseTest, testing::ValuesIn(RefusedStatisticsCases()), NameOf);

}  // namespace
}  // namespace cotan::conformance
