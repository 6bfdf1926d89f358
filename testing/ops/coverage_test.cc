// SPDX-License-Identifier: Apache-2.0

#include "testing/ops/coverage.h"

#include <fstream>
#include <set>
#include <sstream>

#include "gtest/gtest.h"

namespace cotan::testing {
namespace {

const std::vector<CoverageRow>& Core() {
  static const std::vector<CoverageRow>& rows = *new std::vector<CoverageRow>(CoreOpCoverage());
  return rows;
}
const std::vector<CoverageRow>& Functional() {
  static const std::vector<CoverageRow>& rows = *new std::vector<CoverageRow>(FunctionalCoverage());
  return rows;
}

bool IsSupported(const Judgement& judgement) {
  return judgement.verdict == Verdict::kAgrees || judgement.verdict == Verdict::kNotDifferentiable;
}

TEST(CoverageTest, NinetyFivePercentOfTheCoreOpsetAndAllOfItsGradients) {
  const CoverageFigure figure = FigureOf(Core());
  EXPECT_GT(figure.forward_of, 150);
  EXPECT_GE(figure.forward, 0.95 * figure.forward_of);
  EXPECT_GT(figure.backward_of, 100);
}

TEST(CoverageTest, ExactlyTheUnsupportedOpsHaveAReason) {
  std::set<std::string> unsupported;
  for (const std::vector<CoverageRow>* rows : {&Core(), &Functional()}) {
    for (const CoverageRow& row : *rows) {
      if (!IsSupported(row.forward) || !IsSupported(row.backward)) {
        unsupported.insert(row.name);
        EXPECT_NE(ReasonOf(row.name), "")
            << row.name << "\nforward: " << row.forward.message << "\nbackward: " << row.backward.message;
      }
    }
  }
  for (const CoverageException& exception : CoverageExceptions()) {
    EXPECT_TRUE(unsupported.count(exception.name) == 1) << exception.name << " is supported";
  }
}

TEST(CoverageTest, UnsupportedOpsAreRejectedNotMiscompiled) {
  for (const std::vector<CoverageRow>* rows : {&Core(), &Functional()}) {
    for (const CoverageRow& row : *rows) {
      for (const Judgement* judgement : {&row.forward, &row.backward}) {
        EXPECT_TRUE(IsSupported(*judgement) || judgement->verdict == Verdict::kRefused)
            << row.name << ": " << judgement->message;
      }
    }
  }
}

TEST(CoverageTest, TheSupportMatrixIsUpToDate) {
  std::ifstream file("docs/op_support.md");
  std::ostringstream page;
  page << file.rdbuf();
  EXPECT_EQ(page.str(), SupportMatrix(Core(), Functional()))
      << "write it again: ./bazelw run //testing/ops:coverage -- --markdown > docs/op_support.md";
}

}  // namespace
}  // namespace cotan::testing
