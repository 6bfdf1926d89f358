// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/pt2/archive_content.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "aot/frontend/pt2/archive.h"
#include "aot/frontend/pt2/pickled_tensors.h"
#include "base/status_macros.h"

namespace cotan::aot::pt2 {
namespace {

// Returns the NAME of the only program, "models/NAME.json".
absl::StatusOr<std::string> ProgramName(const Archive& archive) {
  constexpr absl::string_view kFolder = "models/";
  constexpr absl::string_view kSuffix = ".json";
  std::vector<std::string> found;
  for (const std::string& name : archive.names()) {
    if (!absl::StartsWith(name, kFolder) || !absl::EndsWith(name, kSuffix)) continue;
    found.push_back(name.substr(kFolder.size(), name.size() - kFolder.size() - kSuffix.size()));
  }
  if (found.size() == 1) return found[0];
  if (found.empty()) {
    return absl::NotFoundError("it holds no exported program (models/NAME.json); write it with torch.export.save");
  }
  return absl::InvalidArgumentError(absl::StrCat("it holds ", found.size(), " programs (", absl::StrJoin(found, ", "),
                                                 "); save one program per archive"));
}

// InvalidArgument: the file exists and has another content than `expected`. Older writers omit it.
absl::Status CheckMark(const Archive& archive, absl::string_view file, absl::string_view expected) {
  if (!archive.Has(file)) return absl::OkStatus();
  COTAN_ASSIGN_OR_RETURN(const std::string content, archive.Read(file));
  if (content == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("its file '", file, "' says '", content.substr(0, 20), "', not '", expected, "'"));
}

// Files of torch 2.6 and 2.7, at the archive's top.
constexpr absl::string_view kOldProgram = "serialized_exported_program.json";
constexpr absl::string_view kOldWeights = "serialized_state_dict.pt";
constexpr absl::string_view kOldConstants = "serialized_constants.pt";
constexpr absl::string_view kOldArguments = "serialized_example_inputs.pt";

absl::StatusOr<StoredTensors> ReadPickled(const Archive& archive, absl::string_view file) {
  COTAN_ASSIGN_OR_RETURN(const std::string bytes, archive.Read(file));
  return ReadPickledTensors(bytes, std::string(file));
}

// The arguments are examples only, so that a file with objects of other classes is ignored.
std::vector<at::Tensor> ReadArguments(const Archive& archive, absl::string_view file) {
  const absl::StatusOr<std::string> bytes = archive.Read(file);
  if (!bytes.ok()) return {};
  absl::StatusOr<std::vector<at::Tensor>> arguments = ReadPickledLeaves(*bytes, std::string(file));
  return arguments.ok() ? *std::move(arguments) : std::vector<at::Tensor>();
}

absl::StatusOr<ArchiveContent> ReadOldContent(const Archive& archive) {
  COTAN_ASSIGN_OR_RETURN(const std::string json, archive.Read(kOldProgram));
  ArchiveContent content;
  COTAN_ASSIGN_OR_RETURN(content.program, ParseExportedProgram(json, kOldProgram));
  COTAN_ASSIGN_OR_RETURN(content.weights, ReadPickled(archive, kOldWeights));
  COTAN_ASSIGN_OR_RETURN(content.constants, ReadPickled(archive, kOldConstants));
  content.arguments = ReadArguments(archive, kOldArguments);
  return content;
}

// Reads weights or constants. Torch 2.8 writes one pickle for all tensors of a folder, later
// versions a table and a file for each tensor.
absl::StatusOr<StoredTensors> ReadTensors(const Archive& archive, absl::string_view kind, absl::string_view name) {
  const std::string folder = absl::StrCat("data/", kind, "/");
  const std::string pickle = absl::StrCat(folder, name, ".pt");
  if (archive.Has(pickle)) return ReadPickled(archive, pickle);
  return LoadStoredTensors(archive, folder, absl::StrCat(folder, name, "_", kind, "_config.json"));
}

}  // namespace

absl::StatusOr<ArchiveContent> ReadArchiveContent(const std::string& path) {
  COTAN_ASSIGN_OR_RETURN(const Archive archive, Archive::Open(path));
  if (archive.Has(kOldProgram)) return ReadOldContent(archive);
  COTAN_RETURN_IF_ERROR(CheckMark(archive, "archive_format", "pt2"));
  COTAN_RETURN_IF_ERROR(CheckMark(archive, "byteorder", "little"));
  COTAN_ASSIGN_OR_RETURN(const std::string name, ProgramName(archive));
  const std::string file = absl::StrCat("models/", name, ".json");
  COTAN_ASSIGN_OR_RETURN(const std::string json, archive.Read(file));
  ArchiveContent content;
  COTAN_ASSIGN_OR_RETURN(content.program, ParseExportedProgram(json, file));
  COTAN_ASSIGN_OR_RETURN(content.weights, ReadTensors(archive, "weights", name));
  COTAN_ASSIGN_OR_RETURN(content.constants, ReadTensors(archive, "constants", name));
  content.arguments = ReadArguments(archive, absl::StrCat("data/sample_inputs/", name, ".pt"));
  return content;
}

}  // namespace cotan::aot::pt2
