// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/data_sizes.h"

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

using ::testing::HasSubstr;

TEST(DataSizesTest, TheFirstPatternApplies) {
  DataDependentSizes declared;
  EXPECT_FALSE(declared.is_set());
  EXPECT_FALSE(declared.RangeOf("nonzero").has_value());
  declared.by_name = {{"head.*", {.min = 1, .max = 7}}, {"*nonzero", {.min = 0, .max = 9}}};
  EXPECT_TRUE(declared.is_set());
  EXPECT_EQ(declared.RangeOf("head.nonzero"), (SizeRange{.min = 1, .max = 7}));
  EXPECT_EQ(declared.RangeOf("body.nonzero"), (SizeRange{.min = 0, .max = 9}));
  EXPECT_FALSE(declared.RangeOf("unique").has_value());
  declared.range = SizeRange{.min = 0, .max = 3};
  EXPECT_EQ(declared.RangeOf("unique"), (SizeRange{.min = 0, .max = 3}));
}

TEST(DataSizesTest, ARangeOfTheScopeReplacesTheDefaultAndLimitsNames) {
  DataDependentSizes declared;
  declared.range = SizeRange{.min = 0, .max = 3};
  declared.by_name = {{"head.*", {.min = 1, .max = 7}}};
  {
    const DataRangeScope scope(SizeRange{.min = 2, .max = 5});
    EXPECT_EQ(declared.RangeOf("unique"), (SizeRange{.min = 2, .max = 5}));
    EXPECT_EQ(declared.RangeOf("head.unique"), (SizeRange{.min = 2, .max = 5}));
    const DataRangeScope none(std::nullopt);
    EXPECT_EQ(declared.RangeOf("unique"), (SizeRange{.min = 0, .max = 3}));
  }
  EXPECT_EQ(declared.RangeOf("unique"), (SizeRange{.min = 0, .max = 3}));
}

TEST(DataSizesTest, RefusesRangesWithoutANumber) {
  EXPECT_TRUE(CheckDataDependentSizes({.range = SizeRange{.min = 0, .max = 1}}).ok());
  for (const SizeRange range : {SizeRange{-1, 3}, SizeRange{0, 0}, SizeRange{4, 3}}) {
    EXPECT_EQ(CheckDataDependentSizes({.range = range}).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(CheckDataDependentSizes({.by_name = {{"a*", range}}}).message(), HasSubstr("by_name['a*']"));
  }
}

TEST(DataSizesTest, FindsSizesThenGivesThem) {
  const DataDependentSizes declared;
  DataSizeTable table(declared);
  const SizeRange range{.min = 1, .max = 8};
  EXPECT_EQ(table.SizeOf("a", range, 5), 5);
  EXPECT_EQ(table.SizeOf("b", range, 2), 2);
  EXPECT_EQ(table.SizeOf("a", range, 5), 5);  // in another method
  ASSERT_EQ(table.sizes().size(), 2);
  EXPECT_EQ(table.sizes()[1].name, "b");
  EXPECT_EQ(table.sizes()[1].example, 2);
  DataSizeTable given(declared, table.sizes(), {3, 4});
  EXPECT_EQ(given.SizeOf("b", range, 2), 4);
  EXPECT_TRUE(given.status().ok());
  EXPECT_EQ(given.SizeOf("c", range, 2), 2);
  EXPECT_THAT(given.status().message(), HasSubstr("at some sizes only"));
  EXPECT_TRUE(table.status().ok());
  EXPECT_EQ(table.SizeOf("c", range, 9), 9);
  EXPECT_THAT(table.status().message(), HasSubstr("'c' has 9 elements"));
}

TEST(DataSizesTest, AScopeSetsTheTableOfItsThread) {
  const DataDependentSizes declared;
  DataSizeTable table(declared);
  EXPECT_EQ(CurrentDataSizes(), nullptr);
  {
    const DataSizeScope scope(&table);
    EXPECT_EQ(CurrentDataSizes(), &table);
  }
  EXPECT_EQ(CurrentDataSizes(), nullptr);
}

}  // namespace
}  // namespace cotan::aot
