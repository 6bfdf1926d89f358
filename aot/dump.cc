// SPDX-License-Identifier: Apache-2.0

#include "aot/dump.h"

#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "aot/ir/text.h"
#include "base/status_macros.h"
#include "planning/schedule.h"
#include "planning/schedule_text.h"
#include "serialization/metadata/graph_signature.h"
#include "serialization/metadata/view_and_mutation_meta.h"
#include "serialization/text/text.h"

namespace cotan::aot {
namespace {

using serialization::Artifact;
using serialization::Method;

// Creates the folder if it is missing.
absl::Status WriteFile(const std::string& folder, absl::string_view name, absl::string_view text) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::string path = absl::StrCat(folder, "/", name);
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) return absl::UnavailableError(absl::StrFormat("cannot write the dump %s", path));
  return absl::OkStatus();
}

absl::Status DumpMetadata(const std::string& folder, const Method& method) {
  if (method.metadata().input_info_size() + method.metadata().output_info_size() == 0) return absl::OkStatus();
  COTAN_ASSIGN_OR_RETURN(const ViewAndMutationMeta metadata, ViewAndMutationMeta::FromProto(method.metadata()));
  COTAN_ASSIGN_OR_RETURN(const GraphSignature signature, GraphSignature::FromProto(method.signature()));
  return WriteFile(folder, absl::StrCat(method.name(), ".metadata.txt"),
                   metadata.ToString(signature.InputNames(), signature.user_outputs, ""));
}

std::string TimingsText(const std::vector<StageTime>& times) {
  std::string text = "{\"stages\": [";
  for (const StageTime& time : times) {
    absl::StrAppendFormat(&text, "%s\n  {\"method\": \"%s\", \"stage\": \"%s\", \"seconds\": %.6f}",
                          &time == times.data() ? "" : ",", time.method, time.stage, absl::ToDoubleSeconds(time.time));
  }
  return text + "\n]}\n";
}

}  // namespace

void GraphDump::Write(absl::string_view stage, const Graph& graph) {
  if (folder_.empty() || !status_.ok()) return;
  status_ = WriteFile(folder_, absl::StrFormat("%s.%02d.%s.txt", method_, next_++, stage), PrintGraph(graph));
}

DumpFunction GraphDump::Function() {
  if (folder_.empty()) return nullptr;
  return [this](absl::string_view stage, const Graph& graph) { Write(stage, graph); };
}

StageClock::StageClock(std::string method, std::vector<StageTime>& times)
    : method_(std::move(method)), times_(times), start_(absl::Now()) {}

void StageClock::Record(absl::string_view stage) {
  const absl::Time now = absl::Now();
  times_.push_back({method_, std::string(stage), now - start_});
  start_ = now;
}

absl::Status DumpArtifact(const std::string& folder, const Artifact& artifact, const std::vector<StageTime>& times) {
  if (folder.empty()) return absl::OkStatus();
  for (const Method& method : artifact.methods()) {
    COTAN_RETURN_IF_ERROR(DumpMetadata(folder, method));
    COTAN_RETURN_IF_ERROR(WriteFile(folder, absl::StrCat(method.name(), ".program.txt"), MethodText(artifact, method)));
    COTAN_ASSIGN_OR_RETURN(const Schedule schedule, MakeSchedule(artifact, method, {}));
    COTAN_RETURN_IF_ERROR(
        WriteFile(folder, absl::StrCat(method.name(), ".schedule.txt"), ScheduleText(artifact, method, schedule)));
  }
  return WriteFile(folder, "timings.json", TimingsText(times));
}

}  // namespace cotan::aot
