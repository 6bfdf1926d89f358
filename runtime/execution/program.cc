// SPDX-License-Identifier: Apache-2.0

#include "runtime/execution/program.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "serialization/schema/continuation.h"
#include "serialization/verifier/artifact_verifier.h"

namespace cotan {

using serialization::Method;
using serialization::State;

absl::StatusOr<std::shared_ptr<const Program>> Program::Load(const std::string& path, RecordedRuns recorded_runs) {
  COTAN_ASSIGN_OR_RETURN(ArtifactFile file, ArtifactFile::Open(path, recorded_runs));
  return Verified(std::move(file), path);
}

absl::StatusOr<std::shared_ptr<const Program>> Program::LoadBytes(std::string bytes, absl::string_view name) {
  COTAN_ASSIGN_OR_RETURN(ArtifactFile file, ArtifactFile::Parse(std::move(bytes), name));
  return Verified(std::move(file), name);
}

absl::StatusOr<std::shared_ptr<const Program>> Program::LoadShared(absl::string_view bytes,
                                                                   std::shared_ptr<const void> owner,
                                                                   absl::string_view name) {
  COTAN_ASSIGN_OR_RETURN(ArtifactFile file, ArtifactFile::ParseShared(bytes, std::move(owner), name));
  return Verified(std::move(file), name);
}

absl::StatusOr<std::shared_ptr<const Program>> Program::Verified(ArtifactFile file, absl::string_view name) {
  const absl::Status status = VerifyArtifact(file.artifact());
  if (!status.ok()) return absl::Status(status.code(), absl::StrCat("'", name, "': ", status.message()));
  return std::shared_ptr<const Program>(new Program(std::move(file), name));
}

Program::Program(ArtifactFile file, absl::string_view name) : file_(std::move(file)) {
  name.remove_prefix(name.rfind('/') + 1);  // npos + 1 is 0
  name_ = std::string(absl::StripSuffix(name, ".cotan"));
  for (int i = 0; i < artifact().methods_size(); ++i) methods_.emplace(method(i).name(), i);
  for (int i = 0; i < artifact().states_size(); ++i) {
    states_.emplace(state(i).name(), i);
    for (const std::string& alias : state(i).aliases()) states_.emplace(alias, i);
  }
}

absl::StatusOr<int> Program::FindMethod(absl::string_view name) const {
  const auto found = methods_.find(name);
  if (found != methods_.end()) return found->second;
  std::vector<absl::string_view> names;
  for (const Method& method : artifact().methods()) {
    if (IsCallable(method)) names.push_back(method.name());
  }
  return absl::NotFoundError(absl::StrCat("no method '", name, "'; there are: ", absl::StrJoin(names, ", ")));
}

absl::StatusOr<int> Program::FindState(absl::string_view name) const {
  const auto found = states_.find(name);
  if (found != states_.end()) return found->second;
  return absl::NotFoundError(absl::StrCat("no state '", name, "'; `cotan inspect` lists them"));
}

std::string Program::InputName(const Method& method, int index) const {
  return index < method.input_names_size() ? method.input_names(index) : absl::StrCat("input.", index);
}

std::string Program::OutputName(const Method& method, int index) const {
  return index < method.output_names_size() ? method.output_names(index) : absl::StrCat("output.", index);
}

}  // namespace cotan
