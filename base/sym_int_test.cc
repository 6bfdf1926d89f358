// SPDX-License-Identifier: Apache-2.0

#include "base/sym_int.h"

#include <limits>
#include <string>

#include "gtest/gtest.h"

namespace cotan {
namespace {

TEST(SymIntTest, ConstantsFold) {
  const SymInt value = SymInt(3) * SymInt(4) + SymInt(1) - SymInt(5);
  EXPECT_TRUE(value.is_constant());
  EXPECT_EQ(value.constant(), 8);
}

TEST(SymIntTest, EvaluatesWithPythonDivision) {
  const SymInt s = SymInt::Symbol(0);
  const SymInt quotient = SymInt::Binary(SymInt::Kind::kFloorDiv, s, 4);
  const SymInt remainder = SymInt::Binary(SymInt::Kind::kMod, s, 4);
  EXPECT_EQ(*quotient.Evaluate({-7}), -2);
  EXPECT_EQ(*remainder.Evaluate({-7}), 1);
}

TEST(SymIntTest, TextRoundTrips) {
  for (const std::string text : {"12", "-3", "s0", "(s0 * 4)", "((s0 + -1) // 2)", "max((s1 % 2), 1)", "min(s0, s1)"}) {
    const absl::StatusOr<SymInt> parsed = SymInt::Parse(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->ToString(), text);
  }
}

TEST(SymIntTest, BadTextIsRejectedWithThePosition) {
  for (const std::string text : {"", "s", "(s0 +4)", "(1 + 2", "1 ", "max(1,2)", "99999999999999999999", "s9999999"}) {
    const absl::Status status = SymInt::Parse(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_NE(status.message().find("at character"), absl::string_view::npos) << status;
  }
  EXPECT_FALSE(SymInt::Parse(std::string(100000, '(')).ok());
}

TEST(SymIntTest, EvaluationErrorsAreReported) {
  const SymInt s = SymInt::Symbol(1);
  EXPECT_EQ(s.Evaluate({4}).status().code(), absl::StatusCode::kInvalidArgument);
  const SymInt big = s * SymInt(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(big.Evaluate({0, 2}).status().code(), absl::StatusCode::kOutOfRange);
  const SymInt division = SymInt::Binary(SymInt::Kind::kFloorDiv, 4, s);
  EXPECT_EQ(division.Evaluate({0, 0}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SymIntTest, IdentitiesDisappear) {
  const SymInt s = SymInt::Symbol(0);
  EXPECT_EQ(s + SymInt(0), s);
  EXPECT_EQ(SymInt(1) * s, s);
}

}  // namespace
}  // namespace cotan
