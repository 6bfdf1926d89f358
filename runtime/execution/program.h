// A loaded artifact: what sessions share.
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

// Immutable after Load(); thread-safe. Sessions keep it alive.
class Program {
 public:
  // Reads and verifies a .cotan file; see MappedFile (base/file.h) for what may
  // happen to the file meanwhile.
  // NotFound, PermissionDenied, Unavailable: the file cannot be read. DataLoss:
  // it is truncated or damaged. InvalidArgument: it is no .cotan file, or its
  // content contradicts itself. Unimplemented: a newer version wrote it. Every
  // message names the file. Recorded runs are for tools; they are mapped if asked
  // for, and then checked when used.
  static absl::StatusOr<std::shared_ptr<const Program>> Load(const std::string& path,
                                                             RecordedRuns recorded_runs = RecordedRuns::kSkip);
  // As Load() with recorded runs, for a file's bytes in memory, which it keeps.
  static absl::StatusOr<std::shared_ptr<const Program>> LoadBytes(std::string bytes,
                                                                  absl::string_view name = "artifact");

  // What VerifyArtifact() (serialization/verifier/artifact_verifier.h) promises holds.
  const serialization::Artifact& artifact() const { return file_.artifact(); }
  const serialization::Method& method(int index) const { return artifact().methods(index); }
  const serialization::State& state(int index) const { return artifact().states(index); }
  // Bytes of artifact().segments(index), a state's; valid as long as the program.
  absl::string_view segment(uint32_t index) const { return file_.segment(index); }
  // As segment(), for segments of recorded runs. FailedPrecondition: loaded without
  // them. DataLoss: damaged.
  absl::StatusOr<absl::string_view> RecordedSegment(uint32_t index) const { return file_.RecordedSegment(index); }
  // Size of the artifact in bytes.
  uint64_t size() const { return file_.size(); }

  // Index of a method. NotFound: the message lists the methods there are.
  absl::StatusOr<int> FindMethod(absl::string_view name) const;
  // Index of a state by its name or one of its aliases. NotFound.
  absl::StatusOr<int> FindState(absl::string_view name) const;

  // Names of arguments and results for messages: as the artifact has it, else
  // "input.2", "output.0".
  std::string InputName(const serialization::Method& method, int index) const;
  std::string OutputName(const serialization::Method& method, int index) const;

 private:
  explicit Program(ArtifactFile file);
  static absl::StatusOr<std::shared_ptr<const Program>> Verified(ArtifactFile file, absl::string_view name);

  ArtifactFile file_;
  absl::flat_hash_map<std::string, int> methods_;
  absl::flat_hash_map<std::string, int> states_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_EXECUTION_PROGRAM_H_
