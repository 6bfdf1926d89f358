// SPDX-License-Identifier: Apache-2.0

// Loads artifacts with valid checksums and runs what was accepted: every method, every function and its backward.
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/execution/program.h"
#include "runtime/testing/function_builder.h"
#include "runtime/testing/program_builder.h"
#include "runtime/testing/run_program.h"
#include "serialization/container/container.h"
#include "testing/fuzz/fuzz_target.h"
#include "testing/fuzz/wire_mutator.h"

namespace cotan::testing {
namespace {

// Returns the bytes of a file with mutated contents, or none if these are not an artifact.
absl::StatusOr<std::string> WithMutatedContents(const ArtifactFile& file, std::mt19937_64& random) {
  serialization::Artifact artifact;
  if (!artifact.ParseFromString(MutateMessage(file.artifact().SerializeAsString(), random))) {
    return absl::InvalidArgumentError("not an artifact");
  }
  ArtifactWriter writer;
  if (absl::Status status = writer.AddSegmentsOf(file); !status.ok()) return status;
  return std::move(writer).Serialize(std::move(artifact));
}

}  // namespace

bool RunInput(absl::string_view input) {
  const auto program = Program::LoadBytes(std::string(input));
  if (!program.ok()) return false;
  RunProgram(*program, /*size=*/2);
  return true;
}

std::string MutateInput(absl::string_view input, std::mt19937_64& random) {
  const absl::StatusOr<ArtifactFile> file = ArtifactFile::Parse(std::string(input), "artifact", Calls::kKeep);
  if (!file.ok()) return MutateBytes(input, random);
  for (int attempt = 0; attempt < 10; ++attempt) {
    absl::StatusOr<std::string> mutated = WithMutatedContents(*file, random);
    if (mutated.ok()) return *std::move(mutated);
  }
  return MutateBytes(input, random);
}

std::vector<std::string> SeedInputs() {
  return {LinearRegression().Bytes(), Square().Bytes(), SquareOfOrderTwo().Bytes(), TwoParts().Bytes(),
          MutatesNonLeaf().Bytes()};
}

}  // namespace cotan::testing
