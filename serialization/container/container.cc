// SPDX-License-Identifier: Apache-2.0

#include "serialization/container/container.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/crc32c.h"
#include "base/status_macros.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "serialization/calls/inline_calls.h"
#include "serialization/calls/shared_types.h"

namespace cotan {
namespace {

using serialization::Artifact;
using serialization::Reference;
using serialization::ReferenceState;
using serialization::ReferenceTensor;
using serialization::Segment;
using serialization::State;

constexpr absl::string_view kMagic =
    "\x93"
    "COTAN\r\n";
constexpr uint64_t kAlignment = 64;
constexpr uint64_t kHeaderSize = 64;
constexpr size_t kHeaderCrcOffset = 60;
// Maximum encoded size of a Segment's offset in the table of contents: a tag and a varint of at most 10
// bytes.
constexpr uint64_t kMaxOffsetBytes = 11;
constexpr uint64_t kMaxContents = std::numeric_limits<int32_t>::max();
const char kZeros[kAlignment] = {};

struct Header {
  uint32_t version = 0;
  uint32_t contents_crc = 0;
  uint64_t contents_offset = 0;
  uint64_t contents_size = 0;
  uint64_t file_size = 0;

  uint64_t contents_end() const { return contents_offset + contents_size; }
};

// The host is little-endian, as every supported one (checked below).
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format's numbers are read in place");

template <typename T>
T LoadNumber(absl::string_view bytes, size_t offset) {
  T number;
  std::memcpy(&number, bytes.data() + offset, sizeof(number));
  return number;
}

template <typename T>
void StoreNumber(T number, size_t offset, std::string& bytes) {
  std::memcpy(&bytes[offset], &number, sizeof(number));
}

std::string EncodeHeader(const Header& header) {
  std::string bytes(kHeaderSize, '\0');
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  StoreNumber(header.version, 8, bytes);
  StoreNumber(header.contents_crc, 12, bytes);
  StoreNumber(header.contents_offset, 16, bytes);
  StoreNumber(header.contents_size, 24, bytes);
  StoreNumber(header.file_size, 32, bytes);
  StoreNumber(Crc32c(absl::string_view(bytes).substr(0, kHeaderCrcOffset)), kHeaderCrcOffset, bytes);
  return bytes;
}

absl::StatusOr<Header> DecodeHeader(absl::string_view file) {
  if (file.substr(0, kMagic.size()) != kMagic.substr(0, file.size())) {
    return absl::InvalidArgumentError("not a .cotan file: it does not start with the format's magic bytes");
  }
  if (file.size() < kHeaderSize) {
    return absl::DataLossError(absl::StrCat("truncated: ", file.size(), " bytes, a header alone has ", kHeaderSize));
  }
  Header header;
  header.version = LoadNumber<uint32_t>(file, 8);
  if (LoadNumber<uint32_t>(file, kHeaderCrcOffset) != Crc32c(file.substr(0, kHeaderCrcOffset))) {
    return absl::DataLossError("damaged: the header's checksum is wrong");
  }
  if (header.version == 0 || header.version > kContainerVersion) {
    return absl::UnimplementedError(absl::StrCat("container version ", header.version,
                                                 "; this build reads versions 1 to ", kContainerVersion,
                                                 ": update it, or compile the model again"));
  }
  header.contents_crc = LoadNumber<uint32_t>(file, 12);
  header.contents_offset = LoadNumber<uint64_t>(file, 16);
  header.contents_size = LoadNumber<uint64_t>(file, 24);
  header.file_size = LoadNumber<uint64_t>(file, 32);
  if (header.file_size != file.size()) {
    return absl::DataLossError(absl::StrCat(file.size() < header.file_size ? "truncated" : "damaged", ": it has ",
                                            file.size(), " bytes, its header says ", header.file_size));
  }
  if (header.contents_offset < kHeaderSize || header.contents_offset > file.size() ||
      header.contents_size > file.size() - header.contents_offset) {
    return absl::InvalidArgumentError(absl::StrCat("the table of contents at offset ", header.contents_offset, ", ",
                                                   header.contents_size, " bytes, leaves the file of ", file.size(),
                                                   " bytes"));
  }
  if (header.version == 1 && header.contents_end() != file.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the table of contents ends at offset ", header.contents_end(),
                                                   ", in container version 1 it ends the file of ", file.size(),
                                                   " bytes"));
  }
  return header;
}

absl::Status CheckChecksum(const Segment& segment, uint32_t index, absl::string_view file) {
  if (Crc32c(file.substr(segment.offset(), segment.size())) == segment.crc32c()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("damaged: the checksum of segment ", index, " at offset ", segment.offset(), " is wrong"));
}

// Has the system start to read a part of a mapped file in the background, in larger blocks than page faults do.
void Prefetch(absl::string_view part) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(part.data()) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(part.data()) + part.size();
  // A hint: on an error, pages are read when they are used.
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_WILLNEED);
}

// Segments are in order, both those before the table of contents and those after it; the latter end the
// file.
absl::Status CheckRanges(const Artifact& artifact, const Header& header) {
  uint64_t free = kHeaderSize, recorded_free = header.contents_end();
  for (int i = 0; i < artifact.segments_size(); ++i) {
    const Segment& segment = artifact.segments(i);
    const bool is_recorded = segment.offset() >= header.contents_end();
    uint64_t& begin = is_recorded ? recorded_free : free;
    const uint64_t end = is_recorded ? header.file_size : header.contents_offset;
    if (segment.offset() % kAlignment != 0 || segment.offset() < begin || segment.offset() > end ||
        segment.size() > end - segment.offset()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "segment ", i, " at offset ", segment.offset(), ", ", segment.size(), " bytes, is not aligned to ",
          kAlignment, ", overlaps another part or leaves the range [", begin, ", ", end, ")"));
    }
    begin = segment.offset() + segment.size();
  }
  if (recorded_free == header.file_size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the bytes [", recorded_free, ", ", header.file_size,
                                                 ") at the end of the file belong to no segment"));
}

// Returns for each segment whether recorded runs use it and nothing else does. An unused segment is not
// recorded.
std::vector<bool> FindRecordedOnly(const Artifact& artifact, size_t num_segments) {
  std::vector<bool> recorded(num_segments, false);
  const auto set = [&recorded](uint32_t segment, bool value) {
    if (segment < recorded.size()) recorded[segment] = value;
  };
  for (const Reference& reference : artifact.references()) {
    for (const ReferenceTensor& tensor : reference.inputs()) set(tensor.segment(), true);
    for (const ReferenceTensor& tensor : reference.outputs()) set(tensor.segment(), true);
    for (const ReferenceState& state : reference.states_after()) set(state.tensor().segment(), true);
  }
  for (const State& state : artifact.states()) {
    if (state.has_segment()) set(state.segment(), false);
  }
  for (const serialization::CudaKernel& kernel : artifact.cuda_kernels().kernels()) {
    for (const serialization::CudaKernel::Image& image : kernel.images()) set(image.segment(), false);
  }
  return recorded;
}

uint64_t RoundUp(uint64_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

absl::Status WithName(absl::string_view name, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("'", name, "': ", status.message()));
}

}  // namespace

uint32_t ArtifactWriter::AddSegment(std::string bytes) {
  const auto next = static_cast<uint32_t>(segments_.size());
  const auto found = index_of_.find(bytes);
  if (found != index_of_.end()) return found->second;
  segments_.push_back(std::move(bytes));
  index_of_.emplace(segments_.back(), next);
  return next;
}

absl::Status ArtifactWriter::AddSegmentsOf(const ArtifactFile& file) {
  for (int i = 0; i < file.artifact().segments_size(); ++i) {
    COTAN_ASSIGN_OR_RETURN(const absl::string_view bytes, file.RecordedSegment(static_cast<uint32_t>(i)));
    AddSegment(std::string(bytes));
  }
  return absl::OkStatus();
}

uint64_t ArtifactWriter::PlaceSegments(const std::vector<bool>& chosen, uint64_t end, Artifact& artifact) const {
  for (size_t i = 0; i < segments_.size(); ++i) {
    if (!chosen[i]) continue;
    Segment& segment = *artifact.mutable_segments(static_cast<int>(i));
    segment.set_offset(RoundUp(end));
    end = segment.offset() + segment.size();
  }
  return end;
}

absl::Status ArtifactWriter::EncodeContents(const Artifact& artifact) {
  if (artifact.ByteSizeLong() > kMaxContents) {
    return absl::InvalidArgumentError(
        absl::StrCat("the table of contents has ", artifact.ByteSizeLong(), " bytes, at most 2 GiB are possible"));
  }
  google::protobuf::io::StringOutputStream stream(&contents_);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  if (!artifact.SerializeToCodedStream(&coded)) return absl::InternalError("the table of contents cannot be encoded");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<absl::string_view>> ArtifactWriter::Layout(Artifact artifact) {
  if (artifact.format_version() == 0) artifact.set_format_version(kFormatVersion);
  OmitSharedTypes(artifact);
  artifact.clear_segments();
  for (const std::string& bytes : segments_) {
    Segment& segment = *artifact.add_segments();
    segment.set_size(bytes.size());
    segment.set_crc32c(Crc32c(bytes));
  }
  const std::vector<bool> recorded = FindRecordedOnly(artifact, segments_.size());
  std::vector<bool> needed = recorded;
  needed.flip();
  const uint64_t contents_offset = PlaceSegments(needed, kHeaderSize, artifact);
  // The message lists the recorded segments, so its size depends on their offsets: they begin after the
  // largest size that it can have.
  const auto num_recorded = static_cast<uint64_t>(std::count(recorded.begin(), recorded.end(), true));
  const uint64_t max_end = contents_offset + artifact.ByteSizeLong() + num_recorded * kMaxOffsetBytes;
  const uint64_t recorded_end = PlaceSegments(recorded, max_end, artifact);
  COTAN_RETURN_IF_ERROR(EncodeContents(artifact));
  const Header header = {.version = kContainerVersion,
                         .contents_crc = Crc32c(contents_),
                         .contents_offset = contents_offset,
                         .contents_size = contents_.size(),
                         .file_size = num_recorded == 0 ? contents_offset + contents_.size() : recorded_end};
  header_ = EncodeHeader(header);

  std::vector<absl::string_view> pieces = {header_};
  uint64_t end = kHeaderSize;
  const auto append = [&](absl::string_view bytes, uint64_t offset) {
    for (; end < offset; end += pieces.back().size()) pieces.emplace_back(kZeros, std::min(kAlignment, offset - end));
    pieces.push_back(bytes);
    end += bytes.size();
  };
  const auto append_segments = [&](const std::vector<bool>& chosen) {
    for (size_t i = 0; i < segments_.size(); ++i) {
      if (chosen[i]) append(segments_[i], artifact.segments(static_cast<int>(i)).offset());
    }
  };
  append_segments(needed);
  append(contents_, contents_offset);
  append_segments(recorded);
  return pieces;
}

absl::Status ArtifactWriter::Finish(Artifact artifact, const std::string& path, FileSystem& files) && {
  COTAN_ASSIGN_OR_RETURN(const std::vector<absl::string_view> pieces, Layout(std::move(artifact)));
  return WriteFileAtomically(path, pieces, files);
}

absl::StatusOr<std::string> ArtifactWriter::Serialize(Artifact artifact) && {
  COTAN_ASSIGN_OR_RETURN(const std::vector<absl::string_view> pieces, Layout(std::move(artifact)));
  return absl::StrJoin(pieces, "");
}

absl::StatusOr<ArtifactFile> ArtifactFile::Open(const std::string& path, RecordedRuns recorded_runs, Calls calls) {
  ArtifactFile file;
  COTAN_ASSIGN_OR_RETURN(file.file_, MappedFile::Open(path));
  COTAN_RETURN_IF_ERROR(WithName(path, file.Read(calls)));
  if (recorded_runs == RecordedRuns::kSkip) file.file_.Shrink(file.contents_end_);
  return file;
}

absl::StatusOr<ArtifactFile> ArtifactFile::Parse(std::string bytes, absl::string_view name, Calls calls) {
  auto owner = std::make_shared<const std::string>(std::move(bytes));
  const absl::string_view view = *owner;
  return ParseShared(view, std::move(owner), name, calls);
}

absl::StatusOr<ArtifactFile> ArtifactFile::ParseShared(absl::string_view bytes, std::shared_ptr<const void> owner,
                                                       absl::string_view name, Calls calls) {
  ArtifactFile file;
  file.owner_ = std::move(owner);
  file.memory_ = bytes;
  COTAN_RETURN_IF_ERROR(WithName(name, file.Read(calls)));
  return file;
}

absl::Status ArtifactFile::Read(Calls calls) {
  const absl::string_view file = bytes();
  COTAN_ASSIGN_OR_RETURN(const Header header, DecodeHeader(file));
  size_ = header.file_size;
  contents_end_ = header.contents_end();
  if (owner_ == nullptr) Prefetch(file.substr(0, contents_end_));
  const absl::string_view contents = file.substr(header.contents_offset, header.contents_size);
  if (Crc32c(contents) != header.contents_crc) {
    return absl::DataLossError("damaged: the checksum of the table of contents is wrong");
  }
  if (contents.size() > kMaxContents || !artifact_.ParseFromArray(contents.data(), static_cast<int>(contents.size()))) {
    return absl::InvalidArgumentError("the table of contents is not an Artifact message");
  }
  if (artifact_.format_version() == 0 || artifact_.format_version() > kFormatVersion) {
    return absl::UnimplementedError(absl::StrCat("format version ", artifact_.format_version(), " by '",
                                                 artifact_.producer(), "'; this build reads versions 1 to ",
                                                 kFormatVersion, ": update it, or compile the model again"));
  }
  COTAN_RETURN_IF_ERROR(CheckRanges(artifact_, header));
  const auto num_segments = static_cast<uint32_t>(artifact_.segments_size());
  for (uint32_t i = 0; i < num_segments; ++i) {
    if (!IsRecorded(i)) COTAN_RETURN_IF_ERROR(CheckChecksum(artifact_.segments(static_cast<int>(i)), i, file));
  }
  for (const State& state : artifact_.states()) {
    if (state.has_segment() && state.segment() < num_segments && IsRecorded(state.segment())) {
      return absl::InvalidArgumentError(absl::StrCat("the content of state '", state.name(), "', segment ",
                                                     state.segment(), ", is in the section of recorded runs"));
    }
  }
  COTAN_RETURN_IF_ERROR(RestoreSharedTypes(artifact_));
  return calls == Calls::kInline ? InlineCalls(artifact_) : absl::OkStatus();
}

bool ArtifactFile::IsRecorded(uint32_t index) const {
  return artifact_.segments(static_cast<int>(index)).offset() >= contents_end_;
}

void ArtifactFile::ReleaseSegment(uint32_t index) const {
  if (is_mapped()) file_.ReleasePages(segment(index));
}

absl::StatusOr<std::shared_ptr<char>> ArtifactFile::CopyOnWrite(uint32_t first, uint32_t last) const {
  const absl::string_view begin = segment(first), end = segment(last);
  return file_.CopyOnWrite({begin.data(), static_cast<size_t>(end.data() + end.size() - begin.data())});
}

absl::string_view ArtifactFile::segment(uint32_t index) const {
  const Segment& segment = artifact_.segments(static_cast<int>(index));
  return bytes().substr(segment.offset(), segment.size());
}

absl::StatusOr<absl::string_view> ArtifactFile::RecordedSegment(uint32_t index) const {
  if (!IsRecorded(index)) return segment(index);
  if (bytes().size() != size_) {
    return absl::FailedPreconditionError(
        absl::StrCat("segment ", index, " is in the section of recorded runs, which is not mapped: open the file with ",
                     "RecordedRuns::kMap"));
  }
  COTAN_RETURN_IF_ERROR(CheckChecksum(artifact_.segments(static_cast<int>(index)), index, bytes()));
  return segment(index);
}

}  // namespace cotan
