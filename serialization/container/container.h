// SPDX-License-Identifier: Apache-2.0

// Reads and writes `.cotan` files.
//
//   offset 0   header, 64 bytes, little-endian:
//                0  8 bytes  magic 93 43 4F 54 41 4E 0D 0A ("\x93COTAN\r\n")
//                8  u32      container version
//               12  u32      CRC-32C of the table of contents
//               16  u64      offset of the table of contents, bytes
//               24  u64      size of the table of contents, bytes
//               32  u64      size of the file, bytes
//               40  20 bytes zero
//               60  u32      CRC-32C of bytes [0, 60)
//   then       segments, each at a multiple of 64, zero bytes between them,
//              in the order of Artifact.segments
//   then       table of contents, an Artifact message
//   then       section of recorded runs: the segments that only
//              Artifact.references use, placed as above, up to the end
//
// Version 1 has no such section: the table of contents ends the file, and the segments of recorded runs are
// among the others.
//
// Rationale: the segments of states are first, so that their offsets do not depend on the size of the
// message that lists them; recorded runs are last, so that training maps a prefix of the file; segments are
// aligned to 64 bytes, so that tensors can be used in the mapping; the header has the file's size, which
// distinguishes a truncated copy from a damaged one.
#ifndef COTAN_SERIALIZATION_CONTAINER_CONTAINER_H_
#define COTAN_SERIALIZATION_CONTAINER_CONTAINER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Newest supported versions of the header and of the Artifact message.
inline constexpr uint32_t kContainerVersion = 2;
inline constexpr uint32_t kFormatVersion = 1;

class ArtifactFile;

// Builds a file; deterministic. Example:
//
//   ArtifactWriter writer;
//   state->set_segment(writer.AddSegment(weights));
//   COTAN_RETURN_IF_ERROR(std::move(writer).Finish(std::move(artifact), "m.cotan"));
class ArtifactWriter {
 public:
  ArtifactWriter() = default;
  ArtifactWriter(ArtifactWriter&&) = default;
  ArtifactWriter& operator=(ArtifactWriter&&) = default;

  // Adds a segment with `bytes` and returns its index in Artifact.segments. Equal bytes share one segment.
  uint32_t AddSegment(std::string bytes);
  // Adds all segments of `file` in their order. If the writer was empty, the indexes in the file's Artifact
  // stay valid. FailedPrecondition: `file` has recorded runs but was opened without them. DataLoss: a
  // recorded segment is damaged.
  absl::Status AddSegmentsOf(const ArtifactFile& file);

  // Writes the file whole or not at all (base/file.h). Sets `artifact.segments` and, if it is 0,
  // `artifact.format_version`. InvalidArgument: the table of contents exceeds 2 GiB. Errors of
  // WriteFileAtomically(): ResourceExhausted (disk full), PermissionDenied, NotFound (folder), Unavailable.
  absl::Status Finish(serialization::Artifact artifact, const std::string& path, FileSystem& files = SystemFiles()) &&;

  // Returns the bytes that Finish() would write. InvalidArgument: the table of contents exceeds 2 GiB.
  absl::StatusOr<std::string> Serialize(serialization::Artifact artifact) &&;

 private:
  // Returns the file's bytes as pieces that point into members.
  absl::StatusOr<std::vector<absl::string_view>> Layout(serialization::Artifact artifact);
  // Sets the offsets of the chosen segments, starting at `end`; returns the new end.
  uint64_t PlaceSegments(const std::vector<bool>& chosen, uint64_t end, serialization::Artifact& artifact) const;
  // Sets contents_.
  absl::Status EncodeContents(const serialization::Artifact& artifact);

  std::deque<std::string> segments_;  // elements stay put: the map's keys point into them
  absl::flat_hash_map<absl::string_view, uint32_t> index_of_;
  std::string header_;
  std::string contents_;
};

// Option to map the section of recorded runs. Only tools that repeat the runs need it; its checksums are
// checked when its segments are used.
enum class RecordedRuns { kSkip, kMap };

// Option to replace the calls of blocks by the blocks' ops (serialization/calls/inline_calls.h). Only tools that write
// the artifact again keep them.
enum class Calls { kInline, kKeep };

// A file that was read: its table of contents and its segments. Header, checksums and segment ranges have
// been checked; VerifyArtifact() (artifact_verifier.h) checks the Artifact's meaning. Immutable, movable;
// thread-safe.
class ArtifactFile {
 public:
  // Maps and checks the file; see MappedFile for permitted changes of the file while it is open, and while there is a
  // CopyOnWrite() of it. NotFound, PermissionDenied: the file cannot be opened. DataLoss: truncated or damaged; the
  // message says where. InvalidArgument: not a .cotan file, or its content is inconsistent. Unimplemented: written by a
  // newer version.
  // With Calls::kInline, the artifact has no blocks and its methods no calls; InvalidArgument also for the errors of
  // InlineCalls().
  static absl::StatusOr<ArtifactFile> Open(const std::string& path, RecordedRuns recorded_runs = RecordedRuns::kSkip,
                                           Calls calls = Calls::kInline);
  // Checks the bytes of a file, with recorded runs, and takes ownership of them. `name` is for messages.
  // DataLoss, InvalidArgument, Unimplemented: as Open().
  static absl::StatusOr<ArtifactFile> Parse(std::string bytes, absl::string_view name = "artifact",
                                            Calls calls = Calls::kInline);
  // Checks the bytes of a file as Parse() does, without a copy. They stay valid and unchanged as long as `owner`, which
  // this object keeps and which is not null.
  static absl::StatusOr<ArtifactFile> ParseShared(absl::string_view bytes, std::shared_ptr<const void> owner,
                                                  absl::string_view name = "artifact", Calls calls = Calls::kInline);

  const serialization::Artifact& artifact() const { return artifact_; }
  // Returns the bytes of Artifact.segments[index], which is in range and not a segment of recorded runs
  // only. They are valid during the lifetime of this object and of an object that it is moved to.
  absl::string_view segment(uint32_t index) const;
  // Lets the system take back the memory of segment(index), if it is mapped from a file; the next use reads the file
  // again.
  void ReleaseSegment(uint32_t index) const;
  // Returns true if the segments are mapped from a file.
  bool is_mapped() const { return owner_ == nullptr; }
  // Returns a copy on write of the bytes from segment(first) to segment(last), which lie in this order and are not
  // empty, if is_mapped(). Errors of MappedFile::CopyOnWrite().
  absl::StatusOr<std::shared_ptr<char>> CopyOnWrite(uint32_t first, uint32_t last) const;
  // Returns the bytes of Artifact.segments[index] for any index in range. Checks the checksums of segments
  // of recorded runs at each call. FailedPrecondition: the file was opened without recorded runs. DataLoss:
  // the segment is damaged.
  absl::StatusOr<absl::string_view> RecordedSegment(uint32_t index) const;
  // Returns the size of the whole file in bytes.
  uint64_t size() const { return size_; }

 private:
  absl::Status Read(Calls calls);
  absl::string_view bytes() const { return owner_ == nullptr ? file_.bytes() : memory_; }
  bool IsRecorded(uint32_t index) const;

  MappedFile file_;
  std::shared_ptr<const void> owner_;  // of memory_, which is used instead of the file; null: the file is used
  absl::string_view memory_;
  serialization::Artifact artifact_;
  uint64_t contents_end_ = 0;  // where the section of recorded runs begins
  uint64_t size_ = 0;
};

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_CONTAINER_CONTAINER_H_
