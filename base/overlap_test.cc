// SPDX-License-Identifier: Apache-2.0

#include "base/overlap.h"

#include <random>
#include <set>

#include "base/test_seed.h"
#include "gtest/gtest.h"

namespace cotan {
namespace {

StridedLayout Layout(DimVector sizes, DimVector strides, int64_t offset = 0) {
  return {std::move(sizes), std::move(strides), offset};
}

// Returns the offsets of all elements, by enumeration.
std::multiset<int64_t> Offsets(const StridedLayout& layout) {
  std::multiset<int64_t> offsets;
  if (NumElements(layout.sizes) == 0) return offsets;
  DimVector index(layout.sizes.size(), 0);
  while (true) {
    int64_t at = layout.offset;
    for (size_t i = 0; i < index.size(); ++i) at += index[i] * layout.strides[i];
    offsets.insert(at);
    size_t dim = index.size();
    while (dim > 0 && ++index[dim - 1] == layout.sizes[dim - 1]) index[--dim] = 0;
    if (dim == 0) return offsets;
  }
}

bool BytesMeet(const StridedLayout& a, int64_t a_bytes, const StridedLayout& b, int64_t b_bytes) {
  std::set<int64_t> bytes;
  for (int64_t at : Offsets(a)) {
    for (int64_t i = 0; i < a_bytes; ++i) bytes.insert(at * a_bytes + i);
  }
  for (int64_t at : Offsets(b)) {
    for (int64_t i = 0; i < b_bytes; ++i) {
      if (bytes.count(at * b_bytes + i) != 0) return true;
    }
  }
  return false;
}

TEST(OverlapTest, HalvesAndInterleavedColumnsAreApart) {
  EXPECT_FALSE(LayoutsOverlap(Layout({2}, {1}), 4, Layout({2}, {1}, 2), 4));
  EXPECT_TRUE(LayoutsOverlap(Layout({3}, {1}), 4, Layout({2}, {1}, 2), 4));
  EXPECT_FALSE(LayoutsOverlap(Layout({4, 2}, {4, 1}), 4, Layout({4, 2}, {4, 1}, 2), 4));
  EXPECT_FALSE(LayoutsOverlap(Layout({4}, {2}), 4, Layout({4}, {2}, 1), 4));
  EXPECT_TRUE(LayoutsOverlap(Layout({}, {}, 3), 4, Layout({4}, {1}), 4));
  EXPECT_FALSE(LayoutsOverlap(Layout({0}, {1}), 4, Layout({4}, {1}), 4));
}

TEST(OverlapTest, StridedBlocksMeetExactlyWhereTheirElementsDo) {
  const StridedLayout block = Layout({4, 4}, {9, 1});
  EXPECT_FALSE(LayoutsOverlap(block, 4, Layout({4, 4}, {9, 1}, 22), 4));
  EXPECT_FALSE(LayoutsOverlap(block, 4, Layout({4, 4}, {9, 1}, 23), 4));
  EXPECT_TRUE(LayoutsOverlap(block, 4, Layout({4, 4}, {9, 1}, 24), 4));
  EXPECT_TRUE(LayoutsOverlap(block, 4, Layout({4, 4}, {9, 1}, 25), 4));
}

TEST(OverlapTest, AgreesWithEnumeration) {
  std::mt19937_64 random(testing::TestSeed());
  const auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  const auto layout = [&] {
    StridedLayout made;
    for (int64_t i = draw(0, 3); i > 0; --i) {
      made.sizes.push_back(draw(0, 4) == 0 ? draw(0, 1) : draw(2, 4));
      made.strides.push_back(draw(0, 12));
    }
    made.offset = draw(0, 40);
    return made;
  };
  int met = 0;
  int folded = 0;
  for (int i = 0; i < 4000; ++i) {
    const StridedLayout a = layout();
    const StridedLayout b = layout();
    const int64_t a_bytes = int64_t{1} << draw(0, 2);
    const int64_t b_bytes = draw(0, 1) == 0 ? a_bytes : int64_t{1} << draw(0, 2);
    const bool expected = BytesMeet(a, a_bytes, b, b_bytes);
    EXPECT_EQ(LayoutsOverlap(a, a_bytes, b, b_bytes), expected)
        << ToString(a) << " x" << a_bytes << " and " << ToString(b) << " x" << b_bytes;
    met += expected ? 1 : 0;
    const std::multiset<int64_t> offsets = Offsets(a);
    const bool folds = std::set<int64_t>(offsets.begin(), offsets.end()).size() != offsets.size();
    EXPECT_EQ(OverlapsItself(a), folds) << ToString(a);
    folded += folds ? 1 : 0;
  }
  EXPECT_GT(met, 500);
  EXPECT_GT(folded, 500);
}

TEST(CoversTest, PermutationsCoverEachOtherAndSlicesDoNot) {
  const StridedLayout whole = Layout({2, 3}, {3, 1});
  EXPECT_TRUE(Covers(whole, Layout({3, 2}, {1, 3})));
  EXPECT_TRUE(Covers(whole, Layout({3, 1}, {2, 3}, 1)));
  EXPECT_FALSE(Covers(Layout({3, 1}, {2, 3}, 1), whole));
  EXPECT_FALSE(Covers(whole, Layout({7}, {1})));
  EXPECT_TRUE(Covers(Layout({0}, {1}), Layout({0}, {1}, 5)));
}

TEST(CoversTest, AgreesWithEnumeration) {
  std::mt19937_64 random(testing::TestSeed());
  const auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  const auto layout = [&](int64_t rank) {
    StridedLayout made;
    for (; rank > 0; --rank) {
      made.sizes.push_back(draw(0, 9) == 0 ? 0 : draw(1, 4));
      made.strides.push_back(draw(0, 4));
    }
    made.offset = draw(0, 3);
    return made;
  };
  int covered = 0;
  for (int i = 0; i < 4000; ++i) {
    const StridedLayout whole = layout(3);
    const StridedLayout part = layout(draw(0, 3));
    const std::multiset<int64_t> places = Offsets(whole);
    bool expected = true;
    for (int64_t at : Offsets(part)) expected = expected && places.count(at) != 0;
    EXPECT_EQ(Covers(whole, part), expected) << ToString(whole) << " and " << ToString(part);
    covered += expected ? 1 : 0;
  }
  EXPECT_GT(covered, 500);
  EXPECT_LT(covered, 3500);
}

}  // namespace
}  // namespace cotan
