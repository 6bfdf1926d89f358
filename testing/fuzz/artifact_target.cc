// SPDX-License-Identifier: Apache-2.0

// Loads artifacts with valid checksums and runs what was accepted: every method, every function and its backward.
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/execution/program.h"
#include "runtime/testing/function_builder.h"
#include "runtime/testing/program_builder.h"
#include "runtime/testing/run_program.h"
#include "serialization/container/container.h"
#include "testing/fuzz/choices.h"
#include "testing/fuzz/fuzz_target.h"
#include "testing/fuzz/valid_program.h"
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

// Returns the bytes of a file with other bytes in the segment `mutated`.
absl::StatusOr<std::string> WithMutatedSegment(const ArtifactFile& file, uint32_t mutated, std::mt19937_64& random) {
  ArtifactWriter writer;
  const auto num_segments = static_cast<uint32_t>(file.artifact().segments_size());
  for (uint32_t i = 0; i < num_segments; ++i) {
    const absl::StatusOr<absl::string_view> bytes = file.RecordedSegment(i);
    if (!bytes.ok()) return bytes.status();
    writer.AddSegment(i == mutated ? MutateBytes(*bytes, random) : std::string(*bytes));
  }
  return std::move(writer).Serialize(file.artifact());
}

// Mutates a segment in one of four files that have some, else the table of contents.
absl::StatusOr<std::string> Mutated(const ArtifactFile& file, std::mt19937_64& random) {
  const auto num_segments = static_cast<uint32_t>(file.artifact().segments_size());
  if (num_segments == 0 || random() % 4 != 0) return WithMutatedContents(file, random);
  return WithMutatedSegment(file, static_cast<uint32_t>(random() % num_segments), random);
}

// Appends valid programs that are small and of which a method runs.
void AppendValidPrograms(size_t count, std::vector<std::string>& seeds) {
  constexpr size_t kMaxSeedBytes = 16384;
  std::mt19937_64 random(1);
  while (count > 0) {
    std::string input(200, '\0');
    for (char& byte : input) byte = static_cast<char>(random());
    Choices choices(input);
    std::string bytes = ValidProgram(choices).Bytes();
    const auto program = Program::LoadBytes(bytes);
    if (bytes.size() > kMaxSeedBytes || !program.ok() || RunProgram(*program, /*size=*/2).methods == 0) continue;
    seeds.push_back(std::move(bytes));
    --count;
  }
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
    absl::StatusOr<std::string> mutated = Mutated(*file, random);
    if (mutated.ok()) return *std::move(mutated);
  }
  return MutateBytes(input, random);
}

std::vector<std::string> SeedInputs() {
  std::vector<std::string> seeds = {LinearRegression().Bytes(), Square().Bytes(), SquareOfOrderTwo().Bytes(),
                                    TwoParts().Bytes(), MutatesNonLeaf().Bytes()};
  AppendValidPrograms(16, seeds);
  return seeds;
}

}  // namespace cotan::testing
