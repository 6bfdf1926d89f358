// SPDX-License-Identifier: Apache-2.0

#include "aot/cache/compile_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace cotan::aot {
namespace {

using Kind = CacheOutcome::Kind;
using ::testing::HasSubstr;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void WriteAll(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

CompileCache Cache(const std::string& name) { return *CompileCache::Open(::testing::TempDir() + "/cache/" + name); }

TEST(CompileCacheTest, WhatIsStoredIsFound) {
  const CompileCache cache = Cache("found");
  CacheOutcome outcome;
  EXPECT_EQ(cache.Find("k1", outcome), "");
  EXPECT_EQ(outcome.kind, Kind::kMiss);

  const std::string content("a\0b\n", 4);
  ASSERT_TRUE(cache.Store("k1", content).ok());
  EXPECT_EQ(cache.Find("k1", outcome), content);
  EXPECT_EQ(outcome.kind, Kind::kHit);
  EXPECT_EQ(cache.Find("k2", outcome), "");
  EXPECT_EQ(outcome.kind, Kind::kMiss);
}

TEST(CompileCacheTest, EveryFlippedByteAndEveryTruncationIsDamage) {
  const CompileCache cache = Cache("damaged");
  ASSERT_TRUE(cache.Store("key", "some content").ok());
  const std::string whole = ReadAll(cache.PathOf("key"));
  CacheOutcome outcome;
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string flipped = whole;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x10);
    WriteAll(cache.PathOf("key"), flipped);
    EXPECT_EQ(cache.Find("key", outcome), "") << i;
    EXPECT_EQ(outcome.kind, Kind::kDamaged) << i;
    WriteAll(cache.PathOf("key"), whole.substr(0, i));
    EXPECT_EQ(cache.Find("key", outcome), "") << i;
    EXPECT_EQ(outcome.kind, Kind::kDamaged) << i;
  }
  EXPECT_THAT(outcome.reason, HasSubstr("key.entry: its content does not match its digest"));
}

TEST(CompileCacheTest, AnEntryUnderAnotherNameIsNotTrusted) {
  const CompileCache cache = Cache("renamed");
  ASSERT_TRUE(cache.Store("one", "content").ok());
  WriteAll(cache.PathOf("two"), ReadAll(cache.PathOf("one")));
  CacheOutcome outcome;
  EXPECT_EQ(cache.Find("two", outcome), "");
  EXPECT_THAT(outcome.reason, HasSubstr("it is the entry of another key"));
}

TEST(CompileCacheTest, WritersAndReadersAtOnceSeeWholeEntries) {
  const CompileCache cache = Cache("concurrent");
  const std::string content(100000, 'x');
  ASSERT_TRUE(cache.Store("key", content).ok());
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int& mistakes : wrong) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        CacheOutcome outcome;
        if (!cache.Store("key", content).ok() || cache.Find("key", outcome) != content) ++mistakes;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, ::testing::Each(0));
}

TEST(CompileCacheTest, AFolderThatCannotBeMadeIsNamed) {
  const absl::Status status = CompileCache::Open("/proc/none/cache").status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("compile cache '/proc/none/cache'"));
}

}  // namespace
}  // namespace cotan::aot
