#include "testing/conformance/report.h"

#include <cstdio>
#include <fstream>
#include <string>

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

class ReportTest : public ::testing::Test {
 protected:
  ReportTest() : out_(std::tmpfile()), report_(out_) {}
  ~ReportTest() override { std::fclose(out_); }

  void KnowFailures(const std::string& text) {
    const std::string path = ::testing::TempDir() + "/known_failures.txt";
    std::ofstream(path) << text;
    ASSERT_TRUE(report_.ReadKnownFailures(path).ok());
  }

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
  EXPECT_EQ(Printed(), "pass eager a\n1 passed, 0 failed\n");
}

TEST_F(ReportTest, TellsTheFirstDifferenceAndCounts) {
  Differences differences = OneDifference();
  differences.Add("another");
  report_.Add("eager", "a", Differences());
  report_.Add("grad", "a", differences);
  EXPECT_EQ(report_.Finish(), 1);
  EXPECT_EQ(Printed(),
            "pass eager a\n"
            "FAIL grad a: call 2, output 0.sizes: [2,3] instead of [3,2] (and 1 more)\n"
            "1 passed, 1 failed\n");
}

TEST_F(ReportTest, KnownFailuresDoNoHarmButAreCounted) {
  KnowFailures("# comment\ngrad a no kernel yet\n");
  report_.Add("grad", "a", OneDifference());
  EXPECT_EQ(report_.Finish(), 0);
  EXPECT_THAT(Printed(), HasSubstr("(known: no kernel yet)\n1 of the failures are known\n0 passed, 1 failed\n"));
}

TEST_F(ReportTest, KnownFailuresThatPassAreAFailure) {
  KnowFailures("grad a no kernel yet\n");
  report_.Add("grad", "a", Differences());
  EXPECT_EQ(report_.Finish(), 1);
  EXPECT_THAT(Printed(), HasSubstr("take it from the list"));
}

TEST_F(ReportTest, NoCaseAtAllIsAFailure) { EXPECT_EQ(report_.Finish(), 1); }

TEST_F(ReportTest, RefusesAKnownFailureWithoutReason) {
  const std::string path = ::testing::TempDir() + "/without_reason.txt";
  std::ofstream(path) << "grad a\n";
  EXPECT_EQ(report_.ReadKnownFailures(path).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(report_.ReadKnownFailures(path + ".absent").code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace cotan::conformance
