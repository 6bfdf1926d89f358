// SPDX-License-Identifier: Apache-2.0

// Writes what each stage of compilation makes, as text, into a folder (CompileOptions.debug.dump_dir). No LibTorch.
//
//   METHOD.NN.STAGE.txt  the graph after stage NN: trace, the passes, lower, partition, optimizer, optimize.*
//   METHOD.metadata.txt  ViewAndMutationMeta; for a method that has it
//   METHOD.program.txt   the method in the artifact
//   METHOD.schedule.txt  its steps and buffers on the CPU, for the examples' sizes
//   timings.json         the seconds that each stage took
#ifndef COTAN_AOT_DUMP_H_
#define COTAN_AOT_DUMP_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "aot/ir/graph.h"
#include "aot/ir/pass.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// Writer of the files FOLDER/METHOD.NN.STAGE.txt of one method; NN counts from 00. With an empty
// folder it writes nothing. Not thread-safe.
class GraphDump {
 public:
  GraphDump(std::string folder, std::string method) : folder_(std::move(folder)), method_(std::move(method)) {}

  // Writes the text of `graph` (ir/text.h). Does nothing after the first error.
  void Write(absl::string_view stage, const Graph& graph);
  // Returns Write() as a function for passes; null with an empty folder. Valid as long as this
  // object.
  DumpFunction Function();
  // Returns the first error. Unavailable: a file cannot be written; the message has its path.
  const absl::Status& status() const { return status_; }

 private:
  std::string folder_;
  std::string method_;
  int next_ = 0;
  absl::Status status_;
};

// The time that a stage took for a method.
struct StageTime {
  std::string method;
  std::string stage;
  absl::Duration time;
};

// Measures the stages of a method one after another.
class StageClock {
 public:
  // `times` outlives the clock.
  StageClock(std::string method, std::vector<StageTime>& times);

  // Adds the time since the last call, or since the construction, as that of `stage`.
  void Record(absl::string_view stage);

 private:
  std::string method_;
  std::vector<StageTime>& times_;
  absl::Time start_;
};

// Writes the metadata, programs and schedules of all methods of `artifact`, which has no dynamic dimensions, and
// timings.json. Does nothing with an empty folder.
// Unavailable: a file cannot be written. Errors of MakeSchedule().
absl::Status DumpArtifact(const std::string& folder, const serialization::Artifact& artifact,
                          const std::vector<StageTime>& times);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DUMP_H_
