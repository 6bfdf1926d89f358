#include "serialization/container.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/crc32c.h"
#include "base/status_macros.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace cotan {
namespace {

using serialization::Artifact;
using serialization::Segment;

constexpr absl::string_view kMagic =
    "\x93"
    "COTAN\r\n";
constexpr uint64_t kAlignment = 64;
constexpr uint64_t kHeaderSize = 64;
constexpr size_t kHeaderCrcOffset = 60;
constexpr uint64_t kMaxContents = std::numeric_limits<int32_t>::max();
const char kZeros[kAlignment] = {};

struct Header {
  uint32_t version = 0;
  uint32_t contents_crc = 0;
  uint64_t contents_offset = 0;
  uint64_t contents_size = 0;
  uint64_t file_size = 0;
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
      header.contents_size != file.size() - header.contents_offset) {
    return absl::InvalidArgumentError(absl::StrCat("the table of contents at offset ", header.contents_offset, ", ",
                                                   header.contents_size, " bytes, does not end the file of ",
                                                   file.size(), " bytes"));
  }
  return header;
}

// Segments lie in order between header and table of contents.
absl::Status CheckSegments(const Artifact& artifact, absl::string_view file, uint64_t contents_offset) {
  uint64_t free = kHeaderSize;
  for (int i = 0; i < artifact.segments_size(); ++i) {
    const Segment& segment = artifact.segments(i);
    if (segment.offset() % kAlignment != 0 || segment.offset() < free || segment.offset() > contents_offset ||
        segment.size() > contents_offset - segment.offset()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "segment ", i, " at offset ", segment.offset(), ", ", segment.size(), " bytes, is not aligned to ",
          kAlignment, ", overlaps another part or leaves the range [", free, ", ", contents_offset, ")"));
    }
    free = segment.offset() + segment.size();
    if (Crc32c(file.substr(segment.offset(), segment.size())) != segment.crc32c()) {
      return absl::DataLossError(
          absl::StrCat("damaged: the checksum of segment ", i, " at offset ", segment.offset(), " is wrong"));
    }
  }
  return absl::OkStatus();
}

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

absl::StatusOr<std::vector<absl::string_view>> ArtifactWriter::Layout(Artifact artifact) {
  if (artifact.format_version() == 0) artifact.set_format_version(kFormatVersion);
  std::vector<absl::string_view> pieces(1);
  uint64_t end = kHeaderSize;
  artifact.clear_segments();
  for (const std::string& bytes : segments_) {
    const uint64_t padding = (kAlignment - end % kAlignment) % kAlignment;
    pieces.emplace_back(kZeros, padding);
    pieces.emplace_back(bytes);
    Segment& segment = *artifact.add_segments();
    segment.set_offset(end + padding);
    segment.set_size(bytes.size());
    segment.set_crc32c(Crc32c(bytes));
    end += padding + bytes.size();
  }
  if (artifact.ByteSizeLong() > kMaxContents) {
    return absl::InvalidArgumentError(
        absl::StrCat("the table of contents has ", artifact.ByteSizeLong(), " bytes, at most 2 GiB are possible"));
  }
  google::protobuf::io::StringOutputStream stream(&contents_);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  if (!artifact.SerializeToCodedStream(&coded)) return absl::InternalError("the table of contents cannot be encoded");
  coded.Trim();
  header_ = EncodeHeader({.version = kContainerVersion,
                          .contents_crc = Crc32c(contents_),
                          .contents_offset = end,
                          .contents_size = contents_.size(),
                          .file_size = end + contents_.size()});
  pieces.front() = header_;
  pieces.emplace_back(contents_);
  return pieces;
}

absl::Status ArtifactWriter::Finish(Artifact artifact, const std::string& path, FileSystem& files) && {
  COTAN_ASSIGN_OR_RETURN(const std::vector<absl::string_view> pieces, Layout(std::move(artifact)));
  return WriteFileAtomically(path, pieces, files);
}

absl::StatusOr<std::string> ArtifactWriter::Serialize(Artifact artifact) && {
  COTAN_ASSIGN_OR_RETURN(const std::vector<absl::string_view> pieces, Layout(std::move(artifact)));
  std::string bytes;
  for (absl::string_view piece : pieces) bytes.append(piece.data(), piece.size());
  return bytes;
}

absl::StatusOr<ArtifactFile> ArtifactFile::Open(const std::string& path) {
  ArtifactFile file;
  COTAN_ASSIGN_OR_RETURN(file.file_, MappedFile::Open(path));
  COTAN_RETURN_IF_ERROR(WithName(path, file.Read()));
  return file;
}

absl::StatusOr<ArtifactFile> ArtifactFile::Parse(std::string bytes, absl::string_view name) {
  ArtifactFile file;
  file.owned_ = std::make_unique<const std::string>(std::move(bytes));
  COTAN_RETURN_IF_ERROR(WithName(name, file.Read()));
  return file;
}

absl::Status ArtifactFile::Read() {
  const absl::string_view file = bytes();
  COTAN_ASSIGN_OR_RETURN(const Header header, DecodeHeader(file));
  const absl::string_view contents = file.substr(header.contents_offset);
  if (Crc32c(contents) != header.contents_crc) {
    return absl::DataLossError("damaged: the checksum of the table of contents is wrong");
  }
  if (contents.size() > kMaxContents || !artifact_.ParseFromArray(contents.data(), static_cast<int>(contents.size()))) {
    return absl::InvalidArgumentError("the table of contents is no Artifact message");
  }
  if (artifact_.format_version() == 0 || artifact_.format_version() > kFormatVersion) {
    return absl::UnimplementedError(absl::StrCat("format version ", artifact_.format_version(), " by '",
                                                 artifact_.producer(), "'; this build reads versions 1 to ",
                                                 kFormatVersion, ": update it, or compile the model again"));
  }
  return CheckSegments(artifact_, file, header.contents_offset);
}

absl::string_view ArtifactFile::segment(uint32_t index) const {
  const Segment& segment = artifact_.segments(static_cast<int>(index));
  return bytes().substr(segment.offset(), segment.size());
}

}  // namespace cotan
