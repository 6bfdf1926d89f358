// SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "serialization/container/container.h"
#include "serialization/metadata/view_and_mutation_meta.h"
#include "testing/conformance/harness/compiled_case.h"
#include "testing/conformance/harness/metadata_check.h"
#include "testing/conformance/harness/modes.h"

namespace cotan::conformance {
namespace {

const serialization::Method* FindMethod(const serialization::Artifact& artifact, const std::string& name) {
  for (const serialization::Method& method : artifact.methods()) {
    if (method.name() == name) return &method;
  }
  return nullptr;
}

void CheckWith(const ConfCase& c, const Json& facts, bool keep_input_mutations, Differences& differences) {
  const std::string mode = keep_input_mutations ? "keep_true" : "keep_false";
  differences.set_prefix(mode + ", ");
  const absl::StatusOr<std::string> bytes = CompileCase(c, keep_input_mutations);
  if (!bytes.ok()) {
    if (!facts.contains("eager_error")) return differences.AddRefusal(bytes.status());
    differences.NotCompared(
        "metadata of a function that eager refuses and the compiler, too; mode eager compares that");
    return;
  }
  const absl::StatusOr<ArtifactFile> file = ArtifactFile::Parse(*bytes);
  if (!file.ok()) return differences.Add(file.status().ToString());
  const serialization::Method* forward = FindMethod(file->artifact(), "forward");
  if (forward == nullptr) return differences.Add("there is no method 'forward'");
  if (facts["status"][mode] == "ok") return CompareMetadata(*forward, facts, mode, differences);
  const auto meta = ViewAndMutationMeta::FromProto(forward->metadata());
  if (!meta.ok()) return differences.Add(meta.status().ToString());
  differences.NotCompared("metadata where the reference fails, or its results are not eager's: they are valid");
}

// Returns the values of the artifact's symbols in the case: "s2" is 2.
std::vector<int64_t> SizesOf(const serialization::Artifact& artifact) {
  std::vector<int64_t> sizes;
  for (const serialization::SymbolProto& symbol : artifact.symbols()) {
    sizes.push_back(std::atoll(symbol.name().c_str() + 1));
  }
  return sizes;
}

}  // namespace

void CheckDynamicMetadata(const std::string& artifact, const Json& facts, Differences& differences) {
  const absl::StatusOr<ArtifactFile> file = ArtifactFile::Parse(artifact);
  if (!file.ok()) return differences.Add(file.status().ToString());
  const serialization::Method* forward = FindMethod(file->artifact(), "forward");
  if (forward == nullptr) return differences.Add("there is no method 'forward'");
  CompareDynamicMetadata(*forward, facts, SizesOf(file->artifact()), differences);
}

void CheckMetadata(const ConfCase& c, const Json& facts, Differences& differences) {
  CheckWith(c, facts, /*keep_input_mutations=*/false, differences);
  CheckWith(c, facts, /*keep_input_mutations=*/true, differences);
}

}  // namespace cotan::conformance
