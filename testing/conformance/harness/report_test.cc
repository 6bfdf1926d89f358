// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/harness/report.h"

#include <cstdio>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::conformance {
namespace {

using ::testing::HasSubstr;

Differences OneDifference() {
  Differences differences;
  differences.set_prefix("call 2, ");
  differences.Expect("output 0.sizes", std::vector<int>{2, 3}, std::vector<int>{3, 2});
  return differences;
}

Differences Refused(const absl::Status& status) {
  Differences differences;
  differences.AddRefusal(status);
  return differences;
}

constexpr char kNoCounts[] = "0 refused as listed, 0 not compared, 0 facts not compared, 0 facts adapted\n";

class ReportTest : public ::testing::Test {
 protected:
  ReportTest() : out_(std::tmpfile()), report_(out_) {}
  ~ReportTest() override { std::fclose(out_); }

  static std::string Written(const std::string& text) {
    const std::string path = ::testing::TempDir() + "/listed.txt";
    std::ofstream(path) << text;
    return path;
  }
  void ListRefusals(const std::string& text) { ASSERT_TRUE(report_.ReadKnownRefusals(Written(text)).ok()); }
  void ListDifferences(const std::string& text) { ASSERT_TRUE(report_.ReadPartitionDifferences(Written(text)).ok()); }

  std::string Printed() {
    std::string text(4096, '\0');
    std::rewind(out_);
    text.resize(std::fread(text.data(), 1, text.size(), out_));
    return text;
  }

  std::FILE* out_;
  Report report_;
};

TEST_F(ReportTest, PassesWhenAllCasesDo) {
  report_.Add("eager", "a", Differences());
  EXPECT_EQ(report_.Finish(), 0);
  EXPECT_EQ(Printed(), absl::StrCat("pass eager a\n", kNoCounts, "1 passed, 0 failed\n"));
}

TEST_F(ReportTest, TheFirstDifferenceIsPrintedAndTheOthersCounted) {
  Differences differences = OneDifference();
  differences.Add("another");
  report_.Add("eager", "a", Differences());
  report_.Add("grad", "a", differences);
  EXPECT_EQ(report_.Finish(), 1);
  EXPECT_EQ(Printed(), absl::StrCat("pass eager a\n"
                                    "FAIL grad a: call 2, output 0.sizes: [2,3] instead of [3,2] (and 1 more)\n",
                                    kNoCounts, "1 passed, 1 failed\n"));
}

TEST_F(ReportTest, AListedRefusalIsCountedSeparately) {
  ListRefusals("# comment\ngrad a UNIMPLEMENTED | no kernel for 'x' | it is not written yet\n");
  report_.Add("grad", "a", Refused(absl::UnimplementedError("graph: no kernel for 'x' of f64")));
  EXPECT_EQ(report_.Finish(), 0);
  EXPECT_EQ(Printed(),
            "refused grad a: UNIMPLEMENTED: graph: no kernel for 'x' of f64 (it is not written yet)\n"
            "1 refused as listed, 0 not compared, 0 facts not compared, 0 facts adapted\n"
            "0 passed, 0 failed\n");
}

TEST_F(ReportTest, AListedRefusalMustHaveItsCodeAndMessage) {
  ListRefusals("grad a UNIMPLEMENTED | no kernel | it is not written yet\n");
  report_.Add("grad", "a", Refused(absl::UnimplementedError("something else")));
  report_.Add("grad", "a", Refused(absl::InternalError("no kernel")));
  EXPECT_EQ(report_.Finish(), 1);
  EXPECT_THAT(Printed(), HasSubstr("0 passed, 2 failed\n"));
}

TEST_F(ReportTest, AllRefusalsOfAListedCaseMustBeTheListedOne) {
  ListRefusals("grad a UNIMPLEMENTED | no kernel | it is not written yet\n");
  Differences alike = Refused(absl::UnimplementedError("no kernel for 'x'"));
  alike.AddRefusal(absl::UnimplementedError("no kernel for 'y'"));
  report_.Add("grad", "a", alike);
  Differences mixed = Refused(absl::UnimplementedError("no kernel for 'x'"));
  mixed.AddRefusal(absl::InternalError("no kernel for 'x'"));
  report_.Add("grad", "a", mixed);
  EXPECT_EQ(report_.Finish(), 1);
  EXPECT_THAT(Printed(), HasSubstr("1 refused as listed"));
  EXPECT_THAT(Printed(), HasSubstr("0 passed, 1 failed\n"));
}

TEST_F(ReportTest, ADifferenceIsNotCountedAsARefusal) {
  ListRefusals("grad a UNIMPLEMENTED | no kernel | it is not written yet\n");
  report_.Add("grad", "a", OneDifference());
  Differences both = OneDifference();
  both.AddRefusal(absl::UnimplementedError("no kernel"));
  report_.Add("grad", "a", both);
  EXPECT_EQ(report_.Finish(), 1);
  EXPECT_THAT(Printed(), HasSubstr("0 passed, 2 failed\n"));
}

TEST_F(ReportTest, AListedRefusalThatPassesFails) {
  ListRefusals("grad a UNIMPLEMENTED | no kernel | it is not written yet\n");
  report_.Add("grad", "a", Differences());
  EXPECT_EQ(report_.Finish(), 1);
  EXPECT_THAT(Printed(), HasSubstr("FAIL grad a: is listed to be refused as UNIMPLEMENTED with 'no kernel'"));
}

TEST_F(ReportTest, AnUncomparedCaseIsNotCountedAsPassed) {
  Differences differences;
  differences.NothingCompared("it is not recorded");
  report_.Add("eager", "a", Differences());
  report_.Add("grad", "a", differences);
  EXPECT_EQ(report_.Finish(), 0);
  EXPECT_EQ(Printed(),
            "pass eager a\nnot compared grad a: it is not recorded\n"
            "0 refused as listed, 1 not compared, 0 facts not compared, 0 facts adapted\n1 passed, 0 failed\n");
}

TEST_F(ReportTest, ADifferenceFailsEvenIfNothingElseIsCompared) {
  Differences differences = OneDifference();
  differences.NothingCompared("it is not recorded");
  report_.Add("grad", "a", differences);
  EXPECT_EQ(report_.Finish(), 1);
}

TEST_F(ReportTest, FactsAreCountedByReason) {
  Differences differences;
  differences.NotCompared("a base is not recorded");
  differences.NotCompared("a base is not recorded");
  differences.Adapted("a later version");
  report_.Add("eager", "a", differences);
  EXPECT_EQ(report_.Finish(), 0);
  EXPECT_EQ(Printed(),
            "pass eager a\nfacts not compared, 2: a base is not recorded\nfacts adapted, 1: a later version\n"
            "0 refused as listed, 0 not compared, 2 facts not compared, 1 facts adapted\n1 passed, 0 failed\n");
}

Differences SavesOneInsteadOfTwo() {
  Differences differences;
  differences.set_prefix("keep_true, ");
  differences.ExpectOfPartition("saved.num_tensors", 1, 2);
  return differences;
}

TEST_F(ReportTest, WithoutAListThePartitionIsNotCompared) {
  report_.Add("metadata", "a", SavesOneInsteadOfTwo());
  EXPECT_EQ(report_.Finish(), 0);
  EXPECT_THAT(Printed(), HasSubstr("0 not compared, 1 facts not compared"));
}

TEST_F(ReportTest, AListedDifferenceOfThePartitionIsAccepted) {
  ListDifferences("metadata a | keep_true, saved.num_tensors: 1 instead of 2 | it is computed again\n");
  report_.Add("metadata", "a", SavesOneInsteadOfTwo());
  EXPECT_EQ(report_.Finish(), 0);
}

TEST_F(ReportTest, AnUnlistedDifferenceOfThePartitionFails) {
  ListDifferences("metadata a | keep_true, saved.num_tensors: 3 instead of 2 | it is computed again\n");
  report_.Add("metadata", "a", SavesOneInsteadOfTwo());
  report_.Add("metadata", "b", SavesOneInsteadOfTwo());
  EXPECT_EQ(report_.Finish(), 1);
  EXPECT_THAT(Printed(), HasSubstr("0 passed, 2 failed\n"));
}

TEST_F(ReportTest, AMissingListedDifferenceOfThePartitionFails) {
  ListDifferences("metadata a | keep_true, saved.num_tensors: 1 instead of 2 | it is computed again\n");
  report_.Add("metadata", "a", Differences());
  EXPECT_EQ(report_.Finish(), 1);
  EXPECT_THAT(Printed(), HasSubstr("take it from the list"));
}

TEST_F(ReportTest, ARunWithoutCasesFails) { EXPECT_EQ(report_.Finish(), 1); }

TEST_F(ReportTest, ARunWithOnlyUncomparedCasesFails) {
  Differences differences;
  differences.NothingCompared("it is not recorded");
  report_.Add("grad", "a", differences);
  EXPECT_EQ(report_.Finish(), 1);
}

TEST_F(ReportTest, RefusesMalformedLists) {
  for (const char* line :
       {"grad a\n", "grad a | message | reason\n", "grad a INTERNAL | message\n", "grad a INTERNAL |  | reason\n"}) {
    EXPECT_EQ(report_.ReadKnownRefusals(Written(line)).code(), absl::StatusCode::kInvalidArgument) << line;
  }
  EXPECT_EQ(report_.ReadPartitionDifferences(Written("metadata a | difference\n")).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(report_.ReadKnownRefusals("/nowhere/at/all.txt").code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace cotan::conformance
