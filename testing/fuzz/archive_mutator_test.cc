// SPDX-License-Identifier: Apache-2.0

#include "testing/fuzz/archive_mutator.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "aot/frontend/pt2/archive.h"
#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "testing/fuzz/json_mutator.h"
#include "testing/fuzz/zip_file.h"

namespace cotan::testing {
namespace {

using aot::pt2::Archive;

std::string SmallArchive() {
  return WriteZip({{"m/a.json", R"({"x": [1, "s0 + 1", {"y": null}]})"}, {"m/b", "bytes"}});
}

TEST(ZipFileTest, WrittenArchivesAreRead) {
  const std::string bytes = SmallArchive();
  const auto archive = Archive::FromBytes(bytes, "written.zip");
  ASSERT_TRUE(archive.ok()) << archive.status();
  EXPECT_EQ(*archive->Read("b"), "bytes");
  const auto entries = ReadZip(bytes);
  ASSERT_TRUE(entries.has_value());
  ASSERT_EQ(entries->size(), 2);
  EXPECT_EQ((*entries)[1].name, "m/b");
  EXPECT_EQ((*entries)[1].content, "bytes");
}

TEST(ZipFileTest, OtherBytesAreNoArchive) {
  EXPECT_FALSE(ReadZip("").has_value());
  EXPECT_FALSE(ReadZip("no archive").has_value());
  const std::string bytes = SmallArchive();
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(ReadZip(bytes.substr(0, size)).has_value()) << size;
}

TEST(ArchiveMutatorTest, MostMutatedArchivesAreWhole) {
  std::mt19937_64 random(TestSeed());
  std::set<std::string> results;
  int whole = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::string mutated = MutateArchive(SmallArchive(), random);
    results.insert(mutated);
    const auto archive = Archive::FromBytes(mutated, "mutated.zip");
    if (!archive.ok()) continue;
    const std::vector<std::string>& names = archive->names();
    whole +=
        std::all_of(names.begin(), names.end(), [&](const auto& name) { return archive->Read(name).ok(); }) ? 1 : 0;
  }
  EXPECT_GT(results.size(), 500);
  EXPECT_GT(whole, 800);
}

TEST(JsonMutatorTest, MostMutatedTextsAreJson) {
  std::mt19937_64 random(TestSeed());
  const std::string text = R"({"nodes": [{"name": "a", "sizes": [1, 2]}, {"spec": "[1, {\"type\": null}]"}]})";
  int parsed = 0;
  for (int i = 0; i < 1000; ++i) parsed += nlohmann::json::accept(MutateJson(text, random)) ? 1 : 0;
  EXPECT_GT(parsed, 900);
}

TEST(JsonMutatorTest, DeepTextsAreMutatedByBytes) {
  std::mt19937_64 random(TestSeed());
  const std::string deep = R"({"spec": ")" + std::string(100000, '[') + R"("})";
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(MutateJson(deep, random).empty());
}

TEST(ArchiveMutatorTest, TheSameSeedGivesTheSameResult) {
  std::mt19937_64 a(7), b(7);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(MutateArchive(SmallArchive(), a), MutateArchive(SmallArchive(), b));
}

}  // namespace
}  // namespace cotan::testing
