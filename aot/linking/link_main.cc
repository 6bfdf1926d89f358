// SPDX-License-Identifier: Apache-2.0

// Fuses backwards that compiled autograd has recorded; see --help.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "aot/linking/fuse_linked.h"
#include "base/status_macros.h"
#include "serialization/container/container.h"
#include "serialization/verifier/artifact_verifier.h"

ABSL_FLAG(std::string, out, "", "file to write");

namespace cotan::aot {
namespace {

absl::StatusOr<ArtifactFile> Open(const std::string& path) {
  COTAN_ASSIGN_OR_RETURN(ArtifactFile file, ArtifactFile::Open(path));
  const absl::Status valid = VerifyArtifact(file.artifact());
  if (!valid.ok()) return absl::Status(valid.code(), absl::StrCat(path, ": ", valid.message()));
  return file;
}

// Returns the number of ops other than views.
int64_t NumKernels(const serialization::Artifact& artifact) {
  int64_t kernels = 0;
  for (const serialization::Method& method : artifact.methods()) {
    kernels += std::count_if(method.ops().begin(), method.ops().end(), [](const auto& op) { return !op.has_view(); });
  }
  return kernels;
}

absl::Status Link(const std::vector<char*>& arguments) {
  const std::string out = absl::GetFlag(FLAGS_out);
  if (arguments.size() < 3 || out.empty()) {
    return absl::InvalidArgumentError("give the captures, the artifacts whose methods they contain, and --out=FILE");
  }
  COTAN_ASSIGN_OR_RETURN(const ArtifactFile captures, Open(arguments[1]));
  std::vector<ArtifactFile> files;
  std::vector<const serialization::Artifact*> programs;
  files.reserve(arguments.size());
  for (size_t i = 2; i < arguments.size(); ++i) {
    COTAN_ASSIGN_OR_RETURN(ArtifactFile file, Open(arguments[i]));
    files.push_back(std::move(file));
    programs.push_back(&files.back().artifact());
  }
  COTAN_RETURN_IF_ERROR(CheckSources(captures.artifact(), programs));
  COTAN_ASSIGN_OR_RETURN(serialization::Artifact fused, FuseLinked(captures.artifact()));
  COTAN_RETURN_IF_ERROR(VerifyArtifact(fused));
  std::printf("%d linked methods, %d kernels before fusion, %d after\n", fused.methods_size(),
              static_cast<int>(NumKernels(captures.artifact())), static_cast<int>(NumKernels(fused)));
  return ArtifactWriter().Finish(std::move(fused), out);
}

}  // namespace
}  // namespace cotan::aot

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Fuses backwards across the programs that they call, so that a device need not capture them:\n"
      "  cotan link CAPTURES A.cotan B.cotan --out=STEP.cotan\n"
      "CompiledAutograd::SaveCaptures() writes CAPTURES; LinkedMethods loads STEP.cotan.");
  const absl::Status status = cotan::aot::Link(absl::ParseCommandLine(argc, argv));
  if (status.ok()) return 0;
  std::fprintf(stderr, "cotan link: %s\n", std::string(status.message()).c_str());
  return 1;
}
