// SPDX-License-Identifier: Apache-2.0

#include "aot/cache/digest.h"

#include <gtest/gtest.h>

#include <string>

namespace cotan::aot {
namespace {

TEST(DigestTest, EqualPartsGiveEqualDigests) {
  EXPECT_EQ(Digest().Add("a", "b").Add("n", 3).Hex(), Digest().Add("a", "b").Add("n", 3).Hex());
  EXPECT_EQ(Digest().Hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(DigestTest, PartsThatJoinToTheSameTextDiffer) {
  EXPECT_NE(Digest().Add("a", "bc").Hex(), Digest().Add("ab", "c").Hex());
  EXPECT_NE(Digest().Add("a", "b").Add("c", "d").Hex(), Digest().Add("a", "bc").Add("", "d").Hex());
  EXPECT_NE(Digest().Add("a", "").Hex(), Digest().Hex());
}

TEST(DigestTest, BytesOfEveryValueCount) {
  EXPECT_NE(Digest().Add("a", std::string("\0", 1)).Hex(), Digest().Add("a", std::string("\0\0", 2)).Hex());
}

}  // namespace
}  // namespace cotan::aot
