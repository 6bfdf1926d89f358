// SPDX-License-Identifier: Apache-2.0

#include "base/philox.h"

#include <set>

#include "gtest/gtest.h"

namespace cotan {
namespace {

// Known answer of philox4x32-10 for counter 0 and key 0, from the authors'
// Random123 test vectors.
TEST(PhiloxTest, MatchesThePublishedKnownAnswer) {
  const PhiloxBlock block = Philox(0, 0);
  EXPECT_EQ(block.lane[0], 0x6627e8d5u);
  EXPECT_EQ(block.lane[1], 0xe169c58du);
  EXPECT_EQ(block.lane[2], 0xbc57ac4cu);
  EXPECT_EQ(block.lane[3], 0x9b00dbd8u);
}

TEST(PhiloxTest, BlocksAndSeedsDiffer) {
  std::set<uint32_t> seen;
  for (uint64_t seed = 0; seed < 16; ++seed) {
    for (uint64_t block = 0; block < 16; ++block) seen.insert(Philox(seed << 32, block << 30).lane[0]);
  }
  EXPECT_EQ(seen.size(), 256u);
}

TEST(PhiloxTest, UniformStaysBelowOneAndHasTheRightMean) {
  EXPECT_EQ(UniformFloat(0), 0.0f);
  EXPECT_LT(UniformFloat(0xffffffffu), 1.0f);
  double sum = 0;
  for (uint64_t block = 0; block < 25000; ++block) {
    for (uint32_t bits : Philox(7, block).lane) sum += UniformFloat(bits);
  }
  EXPECT_NEAR(sum / 100000, 0.5, 0.005);
}

TEST(PhiloxTest, PartialBlockCountsWhole) {
  EXPECT_EQ(PhiloxBlocks(0), 0u);
  EXPECT_EQ(PhiloxBlocks(1), 1u);
  EXPECT_EQ(PhiloxBlocks(5), 2u);
}

}  // namespace
}  // namespace cotan
