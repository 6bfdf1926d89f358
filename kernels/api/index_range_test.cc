// SPDX-License-Identifier: Apache-2.0

#include "kernels/api/index_range.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan {
namespace {

using serialization::Op;
using ::testing::HasSubstr;

absl::StatusOr<IndexRange> RangeOf(const std::string& size, absl::Span<const int64_t> symbols = {}) {
  Op op;
  op.mutable_checked_index()->set_size(size);
  return IndexRange::Of({.op = op, .inputs = {}, .outputs = {}, .symbols = symbols});
}

TEST(IndexRangeTest, AllowsNumbersBelowTheSize) {
  const IndexRange range{.size = 3};
  EXPECT_TRUE(range.Allows(0) && range.Allows(2));
  EXPECT_FALSE(range.Allows(-1) || range.Allows(3));
  EXPECT_FALSE(range.Allows(std::numeric_limits<int64_t>::min()) || range.Allows(std::numeric_limits<int64_t>::max()));
  EXPECT_EQ(range.Resolve(2), 2);
}

TEST(IndexRangeTest, CountsFromTheEndOnRequest) {
  const IndexRange range{.size = 3, .from_end = true};
  EXPECT_TRUE(range.Allows(-3) && range.Allows(2));
  EXPECT_FALSE(range.Allows(-4) || range.Allows(3));
  EXPECT_EQ(range.Resolve(-3), 0);
  EXPECT_EQ(range.Resolve(-1), 2);
}

TEST(IndexRangeTest, TheIgnoredValuePassesUnchanged) {
  const IndexRange range{.size = 3, .from_end = true, .ignored = -2};
  EXPECT_TRUE(range.Allows(-2));
  EXPECT_EQ(range.Resolve(-2), -2);
  EXPECT_EQ(range.Resolve(-1), 2);
  EXPECT_TRUE((IndexRange{.size = 3, .ignored = 255}.Allows(255)));
}

TEST(IndexRangeTest, NothingCanBeSelectedFromNothing) {
  EXPECT_FALSE(IndexRange{.size = 0}.Allows(0));
  EXPECT_FALSE((IndexRange{.size = 0, .from_end = true}.Allows(-1)));
}

TEST(IndexRangeTest, TheSizeMayDependOnDynamicDimensions) {
  const absl::StatusOr<IndexRange> range = RangeOf("(s0 * 2)", {5});
  ASSERT_TRUE(range.ok()) << range.status();
  EXPECT_EQ(range->size, 10);
  EXPECT_FALSE(range->from_end);
  EXPECT_FALSE(range->ignored.has_value());
  EXPECT_THAT(std::string(RangeOf("(s0 + -9)", {5}).status().message()), HasSubstr("size is -4, expected at least 0"));
  EXPECT_EQ(RangeOf("s1", {5}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RangeOf("", {}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(IndexRangeTest, OutOfRangeErrorNamesOpPositionValueAndRange) {
  const IndexRange range{.size = 4, .from_end = true};
  EXPECT_EQ(range.OutOfRangeError(Op::kGather, {2, 3}, 4, -5),
            absl::InvalidArgumentError("gather: index[1,1] is -5, outside [-4, 4)"));
  EXPECT_EQ((IndexRange{.size = 4, .ignored = -100}.OutOfRangeError(Op::kCheckedIndex, {}, 0, 4)),
            absl::InvalidArgumentError("checked_index: index[] is 4, outside [0, 4) and not -100, which is ignored"));
}

}  // namespace
}  // namespace cotan
