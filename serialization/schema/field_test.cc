// SPDX-License-Identifier: Apache-2.0

#include "serialization/schema/field.h"

#include "gtest/gtest.h"

namespace cotan {
namespace {

TEST(Field, CountsBeyondTheLimitAreRefused) {
  EXPECT_EQ(*ParseCount("n", kMaxCount), kMaxCount);
  EXPECT_EQ(ParseCount("n", uint64_t{kMaxCount} + 1).status(),
            absl::InvalidArgumentError("n: 16777217 exceeds the limit of 16777216"));
}

TEST(Field, IndexesOutsideTheirSpaceAreRefused) {
  EXPECT_TRUE(CheckIndex("i", 2, 3, "inputs").ok());
  EXPECT_EQ(CheckIndex("i", 3, 3, "inputs"), absl::InvalidArgumentError("i: 3 is out of range: there are 3 inputs"));
  EXPECT_FALSE(CheckIndex("i", -1, 3, "inputs").ok());
}

TEST(Field, ListsOfIndexesMustAscendStrictly) {
  EXPECT_TRUE(CheckAscending("list", {0, 2, 3}, 4, "inputs").ok());
  EXPECT_TRUE(CheckAscending("list", {}, 0, "inputs").ok());
  EXPECT_EQ(CheckAscending("list", {1, 1}, 4, "inputs"),
            absl::InvalidArgumentError("list[1]: 1 follows 1, but the indexes must ascend"));
  EXPECT_EQ(CheckAscending("list", {0, 4}, 4, "inputs"),
            absl::InvalidArgumentError("list[1]: 4 is out of range: there are 4 inputs"));
}

TEST(Field, SizeExpressionsAreParsedAndWritten) {
  google::protobuf::RepeatedPtrField<std::string> texts;
  *texts.Add() = "2";
  *texts.Add() = "(s0 * 4)";
  absl::StatusOr<SymIntVector> values = ParseSymInts("sizes", texts);
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(JoinSymInts(*values), "2, (s0 * 4)");

  google::protobuf::RepeatedPtrField<std::string> again;
  AddSymInts(*values, &again);
  EXPECT_EQ(again.Get(1), "(s0 * 4)");
}

TEST(Field, TextThatIsNoSizeExpressionNamesItsPlace) {
  google::protobuf::RepeatedPtrField<std::string> texts;
  *texts.Add() = "2";
  *texts.Add() = "two";
  const absl::Status status = ParseSymInts("sizes", texts).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message().substr(0, 10), "sizes[1]: ");
}

}  // namespace
}  // namespace cotan
