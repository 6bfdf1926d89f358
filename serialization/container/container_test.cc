// SPDX-License-Identifier: Apache-2.0

#include "serialization/container/container.h"

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/test_seed.h"
#include "gtest/gtest.h"

namespace cotan {
namespace {

using serialization::Artifact;
using serialization::Reference;

constexpr size_t kHeaderSize = 64;

// Two segments of states, the second of odd length, a table of contents, and two segments that only a
// recorded run uses. The run also uses one of a state.
std::string SmallFile() {
  ArtifactWriter writer;
  Artifact artifact;
  artifact.set_producer("container_test");
  Reference& reference = *artifact.add_references();
  reference.add_inputs()->set_segment(writer.AddSegment("input of the run"));
  artifact.add_states()->set_segment(writer.AddSegment(std::string(8, 'a')));
  artifact.add_states()->set_segment(writer.AddSegment("odd"));
  reference.add_outputs()->set_segment(writer.AddSegment("odd"));
  reference.add_states_after()->mutable_tensor()->set_segment(writer.AddSegment("state after"));
  absl::StatusOr<std::string> bytes = std::move(writer).Serialize(std::move(artifact));
  return bytes.ok() ? *bytes : "";
}

template <typename T>
void Store(T number, size_t offset, std::string& file) {
  std::memcpy(&file[offset], &number, sizeof(number));
}

void FixHeaderChecksum(std::string& file) { Store(Crc32c(file.substr(0, 60)), 60, file); }

absl::Status ParseStatus(std::string file) { return ArtifactFile::Parse(std::move(file), "small.cotan").status(); }

uint64_t Number(const std::string& file, size_t offset) {
  uint64_t number;
  std::memcpy(&number, &file[offset], sizeof(number));
  return number;
}

uint64_t ContentsOffset(const std::string& file) { return Number(file, 16); }
uint64_t ContentsEnd(const std::string& file) { return Number(file, 16) + Number(file, 24); }

// Returns a file with the table of contents `contents`, correct checksums, and `section` after it.
std::string FileAround(const std::string& contents, absl::string_view section = "") {
  std::string file = SmallFile();
  file.resize(ContentsOffset(file));
  absl::StrAppend(&file, contents, section);
  Store<uint32_t>(Crc32c(contents), 12, file);
  Store<uint64_t>(contents.size(), 24, file);
  Store<uint64_t>(file.size(), 32, file);
  FixHeaderChecksum(file);
  return file;
}

// Returns the artifact in container version 1: all segments are before the table of contents.
std::string SmallFileOfVersion1() {
  const Artifact artifact = ArtifactFile::Parse(SmallFile())->artifact();
  Artifact states_only = artifact;
  states_only.clear_references();
  ArtifactWriter writer;
  EXPECT_TRUE(writer.AddSegmentsOf(*ArtifactFile::Parse(SmallFile())).ok());
  std::string file = *std::move(writer).Serialize(states_only);
  states_only = ArtifactFile::Parse(file)->artifact();
  *states_only.mutable_references() = artifact.references();
  const std::string contents = states_only.SerializeAsString();
  file.resize(ContentsOffset(file));
  file += contents;
  Store<uint32_t>(1, 8, file);
  Store<uint32_t>(Crc32c(contents), 12, file);
  Store<uint64_t>(contents.size(), 24, file);
  Store<uint64_t>(file.size(), 32, file);
  FixHeaderChecksum(file);
  return file;
}

std::string WrittenToDisk(absl::string_view name, const std::string& bytes) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
  EXPECT_TRUE(WriteFileAtomically(path, {bytes}).ok());
  return path;
}

TEST(ContainerTest, SegmentsAndContentsAreReadBack) {
  absl::StatusOr<ArtifactFile> file = ArtifactFile::Parse(SmallFile());
  ASSERT_TRUE(file.ok()) << file.status();
  const ArtifactFile moved = *std::move(file);
  EXPECT_EQ(moved.artifact().producer(), "container_test");
  EXPECT_EQ(moved.artifact().format_version(), kFormatVersion);
  ASSERT_EQ(moved.artifact().segments_size(), 4);
  EXPECT_EQ(moved.segment(1), "aaaaaaaa");
  EXPECT_EQ(moved.segment(2), "odd");
  EXPECT_EQ(*moved.RecordedSegment(0), "input of the run");
  EXPECT_EQ(*moved.RecordedSegment(2), "odd");
  EXPECT_EQ(*moved.RecordedSegment(3), "state after");
  for (const serialization::Segment& segment : moved.artifact().segments()) EXPECT_EQ(segment.offset() % 64, 0u);
}

TEST(ContainerTest, SharedBytesAreNotCopiedAndKept) {
  auto bytes = std::make_shared<const std::string>(SmallFile());
  const std::weak_ptr<const std::string> alive = bytes;
  const absl::string_view view = *bytes;
  {
    absl::StatusOr<ArtifactFile> file = ArtifactFile::ParseShared(view, std::move(bytes));
    ASSERT_TRUE(file.ok()) << file.status();
    const ArtifactFile moved = *std::move(file);
    EXPECT_EQ(moved.segment(1), "aaaaaaaa");
    EXPECT_EQ(moved.segment(1).data(), view.data() + moved.artifact().segments(1).offset());
    EXPECT_FALSE(alive.expired());
  }
  EXPECT_TRUE(alive.expired());
}

TEST(ContainerTest, WhatOnlyRecordedRunsUseStandsBehindTheContents) {
  const std::string file = SmallFile();
  const Artifact artifact = ArtifactFile::Parse(file)->artifact();
  EXPECT_GE(artifact.segments(0).offset(), ContentsEnd(file));
  EXPECT_LT(artifact.segments(1).offset(), ContentsOffset(file));
  EXPECT_LT(artifact.segments(2).offset(), ContentsOffset(file)) << "a state has it, too";
  EXPECT_GE(artifact.segments(3).offset(), ContentsEnd(file));
  EXPECT_EQ(artifact.segments(3).offset() + artifact.segments(3).size(), file.size());
}

TEST(ContainerTest, RecordedRunsAreMappedOnRequest) {
  const std::string bytes = SmallFile();
  const std::string path = WrittenToDisk("recorded.cotan", bytes);
  absl::StatusOr<ArtifactFile> without = ArtifactFile::Open(path);
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ(without->segment(1), "aaaaaaaa");
  EXPECT_EQ(*without->RecordedSegment(2), "odd");
  EXPECT_EQ(without->RecordedSegment(0).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(without->size(), bytes.size());
  absl::StatusOr<ArtifactFile> with = ArtifactFile::Open(path, RecordedRuns::kMap);
  ASSERT_TRUE(with.ok()) << with.status();
  EXPECT_EQ(*with->RecordedSegment(0), "input of the run");
}

TEST(ContainerTest, ADamagedRecordedRunIsFoundWhenUsed) {
  std::string file = SmallFile();
  file.back() = '?';
  const std::string path = WrittenToDisk("damaged.cotan", file);
  EXPECT_TRUE(ArtifactFile::Open(path).ok()) << "training does not need it";
  absl::StatusOr<ArtifactFile> opened = ArtifactFile::Open(path, RecordedRuns::kMap);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_TRUE(opened->RecordedSegment(0).ok());
  const absl::Status status = opened->RecordedSegment(3).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("checksum of segment 3"), absl::string_view::npos) << status;
}

TEST(ContainerTest, FilesOfVersion1AreRead) {
  const std::string bytes = SmallFileOfVersion1();
  const std::string path = WrittenToDisk("version1.cotan", bytes);
  absl::StatusOr<ArtifactFile> file = ArtifactFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->segment(1), "aaaaaaaa");
  EXPECT_EQ(*file->RecordedSegment(0), "input of the run");
  EXPECT_EQ(*file->RecordedSegment(3), "state after");
  std::string damaged = bytes;
  damaged[file->artifact().segments(3).offset()] = '?';
  EXPECT_EQ(ParseStatus(damaged).code(), absl::StatusCode::kDataLoss);
}

TEST(ContainerTest, TheContentsEndAFileOfVersion1) {
  std::string file = SmallFile();
  Store<uint32_t>(1, 8, file);
  FixHeaderChecksum(file);
  const absl::Status status = ParseStatus(file);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("container version 1"), absl::string_view::npos) << status;
}

TEST(ContainerTest, ContentOfAStateAmongRecordedRunsIsRefused) {
  Artifact artifact;
  artifact.set_format_version(kFormatVersion);
  serialization::State& state = *artifact.add_states();
  state.set_name("weight");
  state.set_segment(0);
  artifact.add_segments()->set_offset(1024);
  artifact.mutable_segments(0)->set_size(4);
  artifact.mutable_segments(0)->set_crc32c(Crc32c("late"));
  const std::string contents = artifact.SerializeAsString();
  std::string section(1024 - ContentsOffset(SmallFile()) - contents.size(), '\0');
  section += "late";
  const absl::Status status = ParseStatus(FileAround(contents, section));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("state 'weight'"), absl::string_view::npos) << status;
}

TEST(ContainerTest, BytesBehindTheLastSegmentAreRefused) {
  Artifact artifact;
  artifact.set_format_version(kFormatVersion);
  const absl::Status status = ParseStatus(FileAround(artifact.SerializeAsString(), "rest"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("belong to no segment"), absl::string_view::npos) << status;
}

TEST(ContainerTest, SegmentsOfAnotherFileKeepTheirIndices) {
  const ArtifactFile file = *ArtifactFile::Parse(SmallFile());
  ArtifactWriter writer;
  ASSERT_TRUE(writer.AddSegmentsOf(file).ok());
  EXPECT_EQ(*std::move(writer).Serialize(file.artifact()), SmallFile());
  const ArtifactFile mapped = *ArtifactFile::Open(WrittenToDisk("source.cotan", SmallFile()));
  ArtifactWriter incomplete;
  EXPECT_EQ(incomplete.AddSegmentsOf(mapped).code(), absl::StatusCode::kFailedPrecondition);
}

// For random recorded runs that share segments with states, all segments are read back, and those of states
// are in the part that training maps.
TEST(ContainerTest, RandomArtifactsAreReadBack) {
  std::mt19937_64 random(testing::TestSeed());
  for (int trial = 0; trial < 100; ++trial) {
    ArtifactWriter writer;
    Artifact artifact;
    std::vector<std::string> segments;
    const uint64_t count = random() % 40;
    for (uint64_t i = 0; i < count; ++i) {
      std::string bytes(random() % 4 == 0 ? random() % 5000 : random() % 130, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      const uint32_t index = writer.AddSegment(bytes);
      if (index == segments.size()) segments.push_back(bytes);
      if (random() % 2 == 0) artifact.add_states()->set_segment(index);
      if (random() % 2 == 0) artifact.add_references()->add_inputs()->set_segment(index);
    }
    const std::string bytes = *std::move(writer).Serialize(artifact);
    const std::string path = WrittenToDisk("random.cotan", bytes);
    const absl::StatusOr<ArtifactFile> mapped = ArtifactFile::Open(path);
    const absl::StatusOr<ArtifactFile> whole = ArtifactFile::Open(path, RecordedRuns::kMap);
    ASSERT_TRUE(mapped.ok()) << trial << ": " << mapped.status();
    ASSERT_TRUE(whole.ok()) << trial << ": " << whole.status();
    for (const auto& state : artifact.states()) EXPECT_EQ(mapped->segment(state.segment()), segments[state.segment()]);
    for (uint32_t i = 0; i < segments.size(); ++i) EXPECT_EQ(*whole->RecordedSegment(i), segments[i]) << trial;
    ASSERT_EQ(ParseStatus(bytes.substr(0, random() % bytes.size())).code(), absl::StatusCode::kDataLoss) << trial;
  }
}

// Wrong offsets and sizes of segments with correct checksums of the contents and the header.
TEST(ContainerTest, RandomRangesAreRefusedOrInTheFile) {
  std::mt19937_64 random(testing::TestSeed());
  const std::string whole = SmallFile();
  const Artifact intact = ArtifactFile::Parse(whole)->artifact();
  int accepted = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    Artifact artifact = intact;
    serialization::Segment& segment = *artifact.mutable_segments(static_cast<int>(random() % 4));
    const uint64_t near = random() % (2 * whole.size());
    if (random() % 2 == 0) segment.set_offset(random() % 8 == 0 ? random() : near / 64 * 64);
    if (random() % 2 == 0) segment.set_size(random() % 8 == 0 ? random() : near);
    const std::string contents = artifact.SerializeAsString();
    const uint64_t recorded_begin = intact.segments(0).offset();
    const uint64_t room = recorded_begin - ContentsOffset(whole);
    if (contents.size() > room) continue;  // it would move the recorded segments
    const std::string section = std::string(room - contents.size(), '\0') + whole.substr(recorded_begin);
    const absl::StatusOr<ArtifactFile> file = ArtifactFile::Parse(FileAround(contents, section));
    if (!file.ok()) continue;
    ++accepted;
    for (uint32_t i = 0; i < 4; ++i) {
      const absl::StatusOr<absl::string_view> bytes = file->RecordedSegment(i);
      if (!bytes.ok()) continue;
      EXPECT_EQ(Crc32c(*bytes), artifact.segments(static_cast<int>(i)).crc32c());
    }
  }
  EXPECT_GT(accepted, 1000);
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
  const Artifact& artifact = intact->artifact();
  size_t unused = whole.size() - kHeaderSize - (ContentsEnd(whole) - ContentsOffset(whole));
  for (const serialization::Segment& segment : artifact.segments()) unused -= segment.size();
  size_t unnoticed = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string flipped = whole;
    flipped[i] = static_cast<char>(~flipped[i]);
    absl::StatusOr<ArtifactFile> file = ArtifactFile::Parse(flipped);
    if (!file.ok()) continue;
    EXPECT_EQ(file->artifact().SerializeAsString(), artifact.SerializeAsString()) << i;
    EXPECT_EQ(file->segment(1), intact->segment(1)) << i;
    EXPECT_EQ(file->segment(2), intact->segment(2)) << i;
    int damaged = 0;
    for (uint32_t recorded : {0, 3}) damaged += file->RecordedSegment(recorded).ok() ? 0 : 1;
    EXPECT_LE(damaged, 1) << i;
    unnoticed += damaged == 0;
  }
  EXPECT_EQ(unnoticed, unused) << "only the bytes between the parts may change unnoticed";
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
