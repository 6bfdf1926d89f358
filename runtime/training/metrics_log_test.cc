// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/metrics_log.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::training {
namespace {

using ::testing::HasSubstr;

std::string TestPath(absl::string_view name) { return absl::StrCat(::testing::TempDir(), "/", name, ".jsonl"); }

std::string ReadAll(const std::string& path) {
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  return file.ok() ? std::string(file->bytes()) : "";
}

TEST(MetricsLogTest, WritesAnObjectALine) {
  const std::string path = TestPath("lines");
  absl::StatusOr<MetricsLog> log = MetricsLog::Create(path);
  ASSERT_TRUE(log.ok()) << log.status();
  ASSERT_TRUE(log->Write(1, {{"loss", 0.1f + 0.0}, {"lr", 1e-3}, {"examples", int64_t{64}}}).ok());
  ASSERT_TRUE(log->Write(2, {{"note", "a \"b\"\n"}, {"loss", std::nan("")}}).ok());
  ASSERT_TRUE(log->Sync().ok());
  EXPECT_EQ(ReadAll(path),
            "{\"step\":1,\"loss\":0.10000000149011612,\"lr\":0.001,\"examples\":64}\n"
            "{\"step\":2,\"note\":\"a \\\"b\\\"\\u000a\",\"loss\":null}\n");
}

TEST(MetricsLogTest, ResumeCutsLinesAfterTheCheckpoint) {
  const std::string path = TestPath("resumed");
  {
    absl::StatusOr<MetricsLog> log = MetricsLog::Create(path);
    ASSERT_TRUE(log.ok()) << log.status();
    for (int64_t step = 1; step <= 4; ++step) ASSERT_TRUE(log->Write(step, {{"loss", 1.0}}).ok());
  }
  absl::StatusOr<MetricsLog> log = MetricsLog::Resume(path, 2);
  ASSERT_TRUE(log.ok()) << log.status();
  ASSERT_TRUE(log->Write(3, {{"loss", 3.0}}).ok());
  EXPECT_EQ(ReadAll(path), "{\"step\":1,\"loss\":1}\n{\"step\":2,\"loss\":1}\n{\"step\":3,\"loss\":3}\n");
}

TEST(MetricsLogTest, ResumeCutsAnIncompleteLine) {
  const std::string path = TestPath("incomplete");
  ASSERT_TRUE(WriteFileAtomically(path, {"{\"step\":1}\n{\"step\":2,\"lo"}).ok());
  ASSERT_TRUE(MetricsLog::Resume(path, 5).ok());
  EXPECT_EQ(ReadAll(path), "{\"step\":1}\n");
}

TEST(MetricsLogTest, ResumeBeginsAMissingFileAndLeavesAForeignOneAlone) {
  const std::string path = TestPath("begun");
  EXPECT_TRUE(MetricsLog::Resume(path, 5).ok());
  EXPECT_EQ(ReadAll(path), "");
  const std::string foreign = "{\"step\":1}\nname,age\n";
  ASSERT_TRUE(WriteFileAtomically(path, {foreign}).ok());
  const absl::Status status = MetricsLog::Resume(path, 5).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("begun.jsonl:2: is not a line of this log"));
  EXPECT_EQ(ReadAll(path), foreign);
}

TEST(MetricsLogTest, PathsThatCannotBeWrittenAreNamed) {
  const absl::Status status = MetricsLog::Create("/no/such/folder/log").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/no/such/folder/log"));
}

}  // namespace
}  // namespace cotan::training
