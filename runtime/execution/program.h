// SPDX-License-Identifier: Apache-2.0

// A loaded artifact, shared by sessions.
#ifndef COTAN_RUNTIME_EXECUTION_PROGRAM_H_
#define COTAN_RUNTIME_EXECUTION_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "serialization/container/container.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// A verified artifact. Immutable after Load(); thread-safe. Sessions keep it alive.
class Program {
 public:
  // Reads and verifies a .cotan file; see MappedFile (base/file.h) for changes of the file that are allowed
  // while it is loaded, and while a session of it lives. Recorded runs are used by tools; RecordedRuns::kMap maps them,
  // and their checksums are checked when they are used. Every message names the file. NotFound, PermissionDenied,
  // Unavailable: the file cannot be read. DataLoss: the file is truncated or damaged. InvalidArgument: the file is not
  // a .cotan file, or its content is inconsistent. Unimplemented: a newer version wrote the file.
  static absl::StatusOr<std::shared_ptr<const Program>> Load(const std::string& path,
                                                             RecordedRuns recorded_runs = RecordedRuns::kSkip);
  // Verifies the bytes of a .cotan file, recorded runs included. The program owns the bytes. `name` stands
  // for the file in messages. Errors as Load(), except those of reading a file.
  static absl::StatusOr<std::shared_ptr<const Program>> LoadBytes(std::string bytes,
                                                                  absl::string_view name = "artifact");
  // Verifies the bytes of a .cotan file as LoadBytes() does, without a copy. They stay valid and unchanged as long as
  // `owner`, which the program keeps and which is not null.
  static absl::StatusOr<std::shared_ptr<const Program>> LoadShared(absl::string_view bytes,
                                                                   std::shared_ptr<const void> owner,
                                                                   absl::string_view name = "artifact");

  // Returns the name of the file without its folder and ".cotan", or what stood for the file.
  const std::string& name() const { return name_; }
  // Returns the artifact, which has passed VerifyArtifact() (serialization/verifier/artifact_verifier.h).
  const serialization::Artifact& artifact() const { return file_.artifact(); }
  const serialization::Method& method(int index) const { return artifact().methods(index); }
  const serialization::State& state(int index) const { return artifact().states(index); }
  // Returns the bytes of artifact().segments(index), the content of a state. Valid as long as the program.
  absl::string_view segment(uint32_t index) const { return file_.segment(index); }
  // Lets the system take back the memory of segment(index), if it is mapped from a file.
  void ReleaseSegment(uint32_t index) const { file_.ReleaseSegment(index); }
  // Returns true if the segments are mapped from a file: the program is from Load().
  bool is_mapped() const { return file_.is_mapped(); }
  // Returns a writable copy of the bytes from segment(first) to segment(last), which lie in this order and are not
  // empty, if is_mapped(). It shares the file's pages until it writes to them. ResourceExhausted: out of memory.
  // Unavailable: another error of the system.
  absl::StatusOr<std::shared_ptr<char>> CopyOnWrite(uint32_t first, uint32_t last) const {
    return file_.CopyOnWrite(first, last);
  }
  // Returns the bytes of a segment of a recorded run. Valid as long as the program.
  // FailedPrecondition: the program was loaded without recorded runs.
  // DataLoss: the segment is damaged.
  absl::StatusOr<absl::string_view> RecordedSegment(uint32_t index) const { return file_.RecordedSegment(index); }
  // Returns the size of the artifact in bytes.
  uint64_t size() const { return file_.size(); }

  // Returns the index of a method. NotFound: there is none of this name; the message lists all methods.
  absl::StatusOr<int> FindMethod(absl::string_view name) const;
  // Returns the index of the state with this name or alias. NotFound: there is none.
  absl::StatusOr<int> FindState(absl::string_view name) const;

  // Return the name of an argument or result for messages: the artifact's name, else "input.2" or "output.0".
  std::string InputName(const serialization::Method& method, int index) const;
  std::string OutputName(const serialization::Method& method, int index) const;

 private:
  Program(ArtifactFile file, absl::string_view name);
  static absl::StatusOr<std::shared_ptr<const Program>> Verified(ArtifactFile file, absl::string_view name);

  ArtifactFile file_;
  std::string name_;
  absl::flat_hash_map<std::string, int> methods_;
  absl::flat_hash_map<std::string, int> states_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_EXECUTION_PROGRAM_H_
