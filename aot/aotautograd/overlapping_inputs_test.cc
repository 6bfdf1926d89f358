// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/overlapping_inputs.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace cotan::aot {
namespace {

TEST(DefinitelyDisjointTest, SeparatesIntervalsAndColumnsOfOneMatrix) {
  const auto rows = [](int64_t stride, int64_t offset) { return StridedLayout{{4, 4}, {stride, 1}, offset}; };
  EXPECT_TRUE(DefinitelyDisjoint(rows(8, 0), rows(8, 28)));
  EXPECT_TRUE(DefinitelyDisjoint(rows(8, 0), rows(8, 4)));
  EXPECT_FALSE(DefinitelyDisjoint(rows(8, 0), rows(8, 3)));
  EXPECT_FALSE(DefinitelyDisjoint(rows(8, 0), rows(8, 8)));
  EXPECT_TRUE(DefinitelyDisjoint(rows(9, 0), rows(9, 22)));
  EXPECT_TRUE(DefinitelyDisjoint(rows(9, 0), rows(9, 23)));
  EXPECT_FALSE(DefinitelyDisjoint(rows(9, 0), rows(9, 24)));
  EXPECT_FALSE(DefinitelyDisjoint(rows(9, 25), rows(9, 0)));
  const StridedLayout cube = {{2, 4, 3}, {110, 24, 4}, 5};
  EXPECT_TRUE(DefinitelyDisjoint(cube, {{24}, {1}, 196}));
  EXPECT_FALSE(DefinitelyDisjoint(cube, {{24}, {1}, 195}));
  EXPECT_TRUE(DefinitelyDisjoint({{0}, {1}, 0}, {{4}, {1}, 0}));
}

TEST(MayOverlapTest, ComparesDifferentDTypesByBytes) {
  InputDescription a;
  a.dtype = DType::kFloat32;
  a.layout = {{2}, {1}, 2};
  InputDescription b = a;
  b.layout.offset = 0;
  EXPECT_FALSE(MayOverlap(a, b));
  b.dtype = DType::kInt64;  // elements 0 and 1 have the bytes of elements 0 to 3 of half the size
  EXPECT_TRUE(MayOverlap(a, b));
}

}  // namespace
}  // namespace cotan::aot
