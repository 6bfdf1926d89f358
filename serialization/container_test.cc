#include "serialization/container.h"

#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/crc32c.h"
#include "gtest/gtest.h"

namespace cotan {
namespace {

using serialization::Artifact;

constexpr size_t kHeaderSize = 64;

// Two segments, the second of odd length, and a table of contents.
std::string SmallFile() {
  ArtifactWriter writer;
  Artifact artifact;
  artifact.set_producer("container_test");
  artifact.add_states()->set_segment(writer.AddSegment(std::string(8, 'a')));
  artifact.add_states()->set_segment(writer.AddSegment("odd"));
  absl::StatusOr<std::string> bytes = std::move(writer).Serialize(std::move(artifact));
  return bytes.ok() ? *bytes : "";
}

template <typename T>
void Store(T number, size_t offset, std::string& file) {
  std::memcpy(&file[offset], &number, sizeof(number));
}

void FixHeaderChecksum(std::string& file) { Store(Crc32c(file.substr(0, 60)), 60, file); }

absl::Status ParseStatus(std::string file) { return ArtifactFile::Parse(std::move(file), "small.cotan").status(); }

// A file whose table of contents is `contents`, with right checksums.
std::string FileAround(const std::string& contents) {
  std::string file = SmallFile();
  uint64_t offset;
  std::memcpy(&offset, &file[16], sizeof(offset));
  file.resize(offset);
  file += contents;
  Store<uint32_t>(Crc32c(contents), 12, file);
  Store<uint64_t>(contents.size(), 24, file);
  Store<uint64_t>(file.size(), 32, file);
  FixHeaderChecksum(file);
  return file;
}

TEST(ContainerTest, SegmentsAndContentsAreReadBack) {
  absl::StatusOr<ArtifactFile> file = ArtifactFile::Parse(SmallFile());
  ASSERT_TRUE(file.ok()) << file.status();
  const ArtifactFile moved = *std::move(file);
  EXPECT_EQ(moved.artifact().producer(), "container_test");
  EXPECT_EQ(moved.artifact().format_version(), kFormatVersion);
  ASSERT_EQ(moved.artifact().segments_size(), 2);
  EXPECT_EQ(moved.segment(0), "aaaaaaaa");
  EXPECT_EQ(moved.segment(1), "odd");
  EXPECT_EQ(moved.artifact().segments(0).offset() % 64, 0u);
  EXPECT_EQ(moved.artifact().segments(1).offset() % 64, 0u);
}

TEST(ContainerTest, AFileOnDiskReadsLikeItsBytes) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/disk.cotan");
  ArtifactWriter writer;
  writer.AddSegment("on disk");
  ASSERT_TRUE(std::move(writer).Finish(Artifact(), path).ok());
  absl::StatusOr<ArtifactFile> file = ArtifactFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->segment(0), "on disk");
}

TEST(ContainerTest, EqualSegmentsAreStoredOnce) {
  ArtifactWriter writer;
  EXPECT_EQ(writer.AddSegment("same"), 0u);
  EXPECT_EQ(writer.AddSegment("other"), 1u);
  EXPECT_EQ(writer.AddSegment("same"), 0u);
}

TEST(ContainerTest, BytesAreDeterministic) { EXPECT_EQ(SmallFile(), SmallFile()); }

TEST(ContainerTest, EveryTruncationIsRefused) {
  const std::string whole = SmallFile();
  for (size_t size = 0; size < whole.size(); ++size) {
    const absl::Status status = ParseStatus(whole.substr(0, size));
    ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << size << ": " << status;
    ASSERT_NE(status.message().find("truncated"), absl::string_view::npos) << status;
  }
}

TEST(ContainerTest, EveryFlippedByteIsRefusedOrHarmless) {
  const std::string whole = SmallFile();
  absl::StatusOr<ArtifactFile> intact = ArtifactFile::Parse(whole);
  ASSERT_TRUE(intact.ok());
  int accepted = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string flipped = whole;
    flipped[i] = static_cast<char>(~flipped[i]);
    absl::StatusOr<ArtifactFile> file = ArtifactFile::Parse(flipped);
    if (!file.ok()) continue;
    ++accepted;  // padding
    EXPECT_EQ(file->artifact().SerializeAsString(), intact->artifact().SerializeAsString()) << i;
    EXPECT_EQ(file->segment(0), intact->segment(0)) << i;
    EXPECT_EQ(file->segment(1), intact->segment(1)) << i;
  }
  EXPECT_EQ(accepted, 64 - 8) << "only the bytes between the segments may change unnoticed";
}

TEST(ContainerTest, ForeignFilesAreNotCotanFiles) {
  for (const char* foreign : {"PK\x03\x04 a zip archive", "x"}) {
    const absl::Status status = ParseStatus(foreign);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_NE(status.message().find("'small.cotan': not a .cotan file"), absl::string_view::npos) << status;
  }
}

TEST(ContainerTest, NewerVersionsAreRefused) {
  std::string file = SmallFile();
  Store<uint32_t>(kContainerVersion + 1, 8, file);
  FixHeaderChecksum(file);
  EXPECT_EQ(ParseStatus(file).code(), absl::StatusCode::kUnimplemented);

  Artifact artifact;
  artifact.set_format_version(kFormatVersion + 1);
  const absl::Status status = ParseStatus(FileAround(artifact.SerializeAsString()));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_NE(status.message().find("format version 2"), absl::string_view::npos) << status;
}

TEST(ContainerTest, ContentsOutsideTheFileAreRefused) {
  for (uint64_t offset : {uint64_t{0}, uint64_t{63}, uint64_t{1} << 40, ~uint64_t{0}}) {
    std::string file = SmallFile();
    Store<uint64_t>(offset, 16, file);
    FixHeaderChecksum(file);
    EXPECT_EQ(ParseStatus(file).code(), absl::StatusCode::kInvalidArgument) << offset;
  }
}

TEST(ContainerTest, SegmentsThatOverlapOrLeaveTheFileAreRefused) {
  struct Range {
    uint64_t offset;
    uint64_t size;
  };
  for (const Range range : {Range{0, 8}, Range{65, 8}, Range{64, 1000}, Range{1 << 20, 1}, Range{64, ~uint64_t{0}},
                            Range{~uint64_t{63}, 64}}) {
    Artifact artifact;
    artifact.set_format_version(kFormatVersion);
    artifact.add_segments()->set_offset(range.offset);
    artifact.mutable_segments(0)->set_size(range.size);
    const absl::Status status = ParseStatus(FileAround(artifact.SerializeAsString()));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << range.offset << " " << status;
  }
}

TEST(ContainerTest, GarbageContentsAreRefused) {
  const absl::Status status = ParseStatus(FileAround("\x0A\xFF garbage"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

TEST(ContainerTest, MissingFileIsNotFound) {
  EXPECT_EQ(ArtifactFile::Open("/nonexistent/x.cotan").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace cotan
