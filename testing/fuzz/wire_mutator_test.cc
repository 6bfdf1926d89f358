// SPDX-License-Identifier: Apache-2.0

#include "testing/fuzz/wire_mutator.h"

#include <random>
#include <set>
#include <string>

#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "runtime/testing/program_builder.h"
#include "serialization/container/container.h"

namespace cotan::testing {
namespace {

std::string Contents() { return ArtifactFile::Parse(LinearRegression().Bytes())->artifact().SerializeAsString(); }

TEST(WireMutatorTest, FieldsOfAMessageAreWrittenAsTheyWereRead) {
  const std::string contents = Contents();
  const auto fields = ParseFields(contents);
  ASSERT_TRUE(fields.has_value());
  EXPECT_GT(fields->size(), 3);
  EXPECT_EQ(SerializeFields(*fields), contents);
}

TEST(WireMutatorTest, TruncatedMessagesAreNotRead) {
  EXPECT_FALSE(ParseFields(absl::string_view("\x0a\x05"
                                             "abc",
                                             5))
                   .has_value());
  EXPECT_FALSE(ParseFields("\x08").has_value());
  EXPECT_FALSE(ParseFields("\x0d\x01\x02").has_value());
  EXPECT_FALSE(ParseFields("\x0b").has_value());  // a group
  EXPECT_TRUE(ParseFields("").has_value());
}

TEST(WireMutatorTest, MutatedMessagesAreMessages) {
  std::mt19937_64 random(TestSeed());
  const std::string contents = Contents();
  std::set<std::string> results;
  int parsed = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::string mutated = MutateMessage(contents, random);
    EXPECT_TRUE(ParseFields(mutated).has_value());
    results.insert(mutated);
    serialization::Artifact artifact;
    parsed += artifact.ParseFromString(mutated) ? 1 : 0;
  }
  EXPECT_GT(results.size(), 900);
  EXPECT_GT(parsed, 500);
}

TEST(WireMutatorTest, TheSameSeedGivesTheSameResult) {
  std::mt19937_64 a(7), b(7);
  EXPECT_EQ(MutateMessage(Contents(), a), MutateMessage(Contents(), b));
  EXPECT_EQ(MutateBytes("bytes", a), MutateBytes("bytes", b));
}

}  // namespace
}  // namespace cotan::testing
