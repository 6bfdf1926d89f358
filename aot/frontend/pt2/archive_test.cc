// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/pt2/archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <random>

#include "aot/frontend/pt2/archive_builder.h"

namespace cotan::aot::pt2 {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string BytesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void ExpectRefused(const ArchiveFiles& files, const std::string& message, bool compressed = false) {
  const absl::Status status = Archive::Open(WriteArchive("refused.pt2", files, compressed)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  EXPECT_THAT(std::string(status.message()), HasSubstr("refused.pt2"));
}

TEST(ArchiveTest, CountsNamesFromTheFolderThatHoldsEverything) {
  const auto archive = Archive::Open(WriteArchive("folder.pt2", {{"m/a", "one"}, {"m/b/c", "two"}}));
  ASSERT_TRUE(archive.ok()) << archive.status();
  EXPECT_THAT(archive->names(), ElementsAre("a", "b/c"));
  EXPECT_EQ(*archive->Read("b/c"), "two");
  EXPECT_EQ(archive->Read("m/a").status().code(), absl::StatusCode::kNotFound);
}

TEST(ArchiveTest, KeepsNamesOfFilesAtTheTop) {
  const auto archive = Archive::Open(WriteArchive("top.pt2", {{"a", "one"}, {"b/c", ""}}));
  ASSERT_TRUE(archive.ok()) << archive.status();
  EXPECT_THAT(archive->names(), ElementsAre("a", "b/c"));
  EXPECT_EQ(*archive->Read("b/c"), "");
}

TEST(ArchiveTest, RefusesNamesThatLeadElsewhere) {
  ExpectRefused({{"/etc/passwd", "x"}}, "an absolute name");
  ExpectRefused({{"m/../../x", "x"}}, "a name that leads elsewhere");
  ExpectRefused({{"m/./x", "x"}}, "a name that leads elsewhere");
  ExpectRefused({{"m\\x", "x"}}, "a backslash");
  // libzip does not write such a name.
  std::string bytes = BytesOf(WriteArchive("control.pt2", {{"m/QQx", "x"}}));
  for (size_t at = bytes.find("QQ"); at != std::string::npos; at = bytes.find("QQ")) bytes.replace(at, 2, "\x01Q");
  EXPECT_THAT(std::string(Archive::FromBytes(bytes, "control.pt2").status().message()),
              HasSubstr("a control character"));
}

TEST(ArchiveTest, RefusesCompressedFilesSoThatNothingCanExplode) {
  ExpectRefused({{"m/zeros", std::string(1 << 20, '\0')}}, "compression", /*compressed=*/true);
}

TEST(ArchiveTest, RefusesFilesThatShareTheirBytes) {
  // Makes the second directory entry point to the data of the first.
  const std::string path = WriteArchive("shared.pt2", {{"m/a", std::string(100, 'a')}, {"m/b", std::string(100, 'a')}});
  std::string bytes = BytesOf(path);
  const size_t first = bytes.find("PK\x01\x02");
  const size_t second = bytes.find("PK\x01\x02", first + 4);
  ASSERT_NE(second, std::string::npos);
  bytes.replace(second + 42, 4, bytes.substr(first + 42, 4));
  EXPECT_FALSE(Archive::FromBytes(bytes, "shared.pt2").ok());
}

TEST(ArchiveTest, RefusesWhatIsNoZip) {
  for (const std::string& bytes : {std::string(), std::string("PK\x03\x04"), std::string(1000, 'x')}) {
    const absl::Status status = Archive::FromBytes(bytes, "no.pt2").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bytes.size();
    EXPECT_THAT(std::string(status.message()), HasSubstr("no.pt2 is not a .pt2 archive"));
  }
  EXPECT_EQ(Archive::Open("/no/such/file.pt2").status().code(), absl::StatusCode::kNotFound);
}

TEST(ArchiveTest, FindsDamagedContentByItsChecksum) {
  std::string bytes = BytesOf(WriteArchive("damaged.pt2", {{"m/a", "some content"}}));
  bytes[bytes.find("some content")] = 'S';
  const auto archive = Archive::FromBytes(bytes, "damaged.pt2");
  ASSERT_TRUE(archive.ok()) << archive.status();
  const absl::Status status = archive->Read("a").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'a' is damaged"));
}

TEST(ArchiveTest, TruncatedAndGarbledArchivesAreRefusedOrReadAsTheyAre) {
  const ArchiveFiles files = SmallModel();
  const std::string whole = BytesOf(WriteArchive("whole.pt2", files));
  for (size_t size = 0; size < whole.size(); size += 97) {
    EXPECT_FALSE(Archive::FromBytes(whole.substr(0, size), "cut.pt2").ok()) << size;
  }
  constexpr uint32_t kSeed = 20260101;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  for (int i = 0; i < 300; ++i) {
    std::string garbled = whole;
    for (int k = 0; k < 4; ++k) garbled[random() % garbled.size()] = static_cast<char>(random());
    const auto archive = Archive::FromBytes(garbled, "garbled.pt2");
    if (!archive.ok()) continue;
    for (const std::string& name : archive->names()) {
      const auto content = archive->Read(name);
      if (!content.ok()) continue;
      // Content with a correct checksum is the content that was written.
      EXPECT_TRUE(std::any_of(files.begin(), files.end(), [&](const auto& f) { return f.second == *content; })) << i;
    }
  }
}

}  // namespace
}  // namespace cotan::aot::pt2
