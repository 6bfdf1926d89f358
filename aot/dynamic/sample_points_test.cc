// SPDX-License-Identifier: Apache-2.0

#include "aot/dynamic/sample_points.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

TEST(SamplePointsTest, PointsAreInRangeAndUnlikeFixedSizes) {
  const DynamicShapes shapes{{{"batch", 2, 64, 8}, {"time", 4, 128, 16}},
                             {{SymInt::Symbol(0), 11, 14}, {SymInt::Symbol(0), SymInt::Symbol(1)}}};
  for (int attempt = 0; attempt < 3; ++attempt) {
    const auto points = ChooseSamplePoints(shapes, attempt);
    ASSERT_TRUE(points.ok()) << points.status();
    ASSERT_EQ(points->size(), 4u);
    std::set<int64_t> distinct = {11, 14};
    int even = 0;
    for (const DimVector& point : *points) {
      EXPECT_GE(point[0], 2);
      EXPECT_LE(point[0], 64);
      EXPECT_GE(point[1], 4);
      EXPECT_LE(point[1], 128);
      for (const int64_t value : point) {
        EXPECT_TRUE(distinct.insert(value).second) << value;
        even += value % 2 == 0 ? 1 : 0;
      }
    }
    EXPECT_EQ(even, 2);
  }
}

TEST(SamplePointsTest, SizesOfTheModelAreNoMultiplesOfPoints) {
  const DynamicShapes shapes{{{"batch", 2, 64, 8}}, {{SymInt::Symbol(0)}}};
  const absl::btree_set<int64_t> fixed = {48, 104, 208, 440};
  for (int attempt = 0; attempt < 3; ++attempt) {
    const auto points = ChooseSamplePoints(shapes, attempt, fixed);
    ASSERT_TRUE(points.ok()) << points.status();
    for (const DimVector& point : *points) {
      for (const int64_t size : fixed) EXPECT_NE(size % point[0], 0) << size << " at " << point[0];
    }
  }
}

TEST(SamplePointsTest, AttemptsDiffer) {
  const DynamicShapes shapes{{{"batch", 1, 64, 8}}, {{SymInt::Symbol(0)}}};
  EXPECT_NE(*ChooseSamplePoints(shapes, 0), *ChooseSamplePoints(shapes, 1));
}

TEST(SamplePointsTest, SmallRangesAreUsedUp) {
  const DynamicShapes shapes{{{"n", 3, 5, 4}, {"m", 100, 103, 101}}, {{SymInt::Symbol(0), SymInt::Symbol(1)}}};
  const auto points = ChooseSamplePoints(shapes, 0);
  ASSERT_TRUE(points.ok()) << points.status();
  std::set<int64_t> n, m;
  for (const DimVector& point : *points) {
    n.insert(point[0]);
    m.insert(point[1]);
  }
  EXPECT_EQ(n, (std::set<int64_t>{3, 4, 5}));
  EXPECT_EQ(m, (std::set<int64_t>{100, 101, 102, 103}));
}

TEST(SamplePointsTest, EndsAreThoseOfTheRangesWithinReason) {
  const DynamicShapes shapes{{{"batch", 1, 64, 8}, {"time", 4, kNoMaximum, 16}, {"width", 100, 4096, 224}},
                             {{SymInt::Symbol(0), SymInt::Symbol(1)}, {SymInt::Symbol(2)}}};
  EXPECT_EQ(ChooseEndPoints(shapes), (std::vector<DimVector>{{2, 4, 100}, {64, 128, 896}, {24, 24, 120}}));
}

TEST(SamplePointsTest, ArgumentsOfManyDynamicDimensionsAreNotHuge) {
  DynamicShapes shapes{{}, {{}}};
  for (int i = 0; i < 4; ++i) {
    shapes.symbols.push_back({std::string(1, static_cast<char>('a' + i)), 2, kNoMaximum, 4});
    shapes.sizes[0].push_back(SymInt::Symbol(i));
  }
  EXPECT_EQ(ChooseEndPoints(shapes), (std::vector<DimVector>{{2, 2, 2, 2}, {32, 32, 32, 32}, {24, 24, 24, 24}}));
}

TEST(SamplePointsTest, ASymbolWithOneValueIsNamed) {
  const DynamicShapes shapes{{{"batch", 8, 8, 8}}, {{SymInt::Symbol(0)}}};
  EXPECT_THAT(ChooseSamplePoints(shapes, 0).status().message(), ::testing::HasSubstr("'batch' can only be 8"));
}

// Two narrow ranges have too few different sizes, beside one without an end.
TEST(SamplePointsTest, NarrowRangesBesideAWideOneEnd) {
  DynamicShapes shapes;
  shapes.symbols = {{"n", 2}, {"a", 0, 3}, {"b", 0, 3}};
  shapes.sizes = {{SymInt::Symbol(0), SymInt(2), SymInt(3)}};
  const auto points = ChooseSamplePoints(shapes, 0, {});
  ASSERT_TRUE(points.ok()) << points.status();
  for (const DimVector& point : *points) EXPECT_LE(point[1], 3);
}

}  // namespace
}  // namespace cotan::aot
