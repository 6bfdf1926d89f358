// SPDX-License-Identifier: Apache-2.0

// Tests that hostile and damaged artifacts give an error or a program that runs, never a crash.
#include "runtime/execution/program.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/testing/program_builder.h"
#include "runtime/testing/run_program.h"

namespace cotan {
namespace {

using serialization::Artifact;
using ::testing::HasSubstr;
using testing::LinearRegression;
using testing::RunProgram;

// Loads a file with these contents, the segments of `segments_of` and correct checksums.
absl::StatusOr<std::shared_ptr<const Program>> LoadContents(const Artifact& contents, const ArtifactFile& segments_of) {
  ArtifactWriter writer;
  const absl::Status added = writer.AddSegmentsOf(segments_of);
  if (!added.ok()) return added;
  absl::StatusOr<std::string> bytes = std::move(writer).Serialize(contents);
  if (!bytes.ok()) return bytes.status();
  return Program::LoadBytes(*std::move(bytes));
}

TEST(ProgramTest, AnIntactProgramRuns) { EXPECT_EQ(RunProgram(LinearRegression().Load(), 2).methods, 4); }

TEST(ProgramTest, ErrorsNameTheFile) {
  const absl::Status status = Program::LoadBytes("PK\x03\x04", "model.zip").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'model.zip'"));
  EXPECT_EQ(Program::Load("/nonexistent/model.cotan").status().code(), absl::StatusCode::kNotFound);
}

TEST(ProgramTest, TheNameIsThatOfTheFileWithoutFolderAndExtension) {
  const std::string bytes = LinearRegression().Bytes();
  EXPECT_EQ((*Program::LoadBytes(bytes))->name(), "artifact");
  EXPECT_EQ((*Program::LoadBytes(bytes, "models/v1.2/backbone.cotan"))->name(), "backbone");
  EXPECT_EQ((*Program::LoadBytes(bytes, "backbone"))->name(), "backbone");
}

TEST(ProgramTest, EveryTruncationIsRefused) {
  const std::string whole = LinearRegression().Bytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    ASSERT_EQ(Program::LoadBytes(whole.substr(0, size)).status().code(), absl::StatusCode::kDataLoss) << size;
  }
}

TEST(ProgramTest, EveryFlippedByteIsRefusedOrHarmless) {
  const std::string whole = LinearRegression().Bytes();
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string flipped = whole;
    flipped[i] = static_cast<char>(~flipped[i]);
    const absl::StatusOr<std::shared_ptr<const Program>> program = Program::LoadBytes(flipped);
    if (program.ok()) {
      ASSERT_EQ(RunProgram(*program, 2).methods, 4) << i;
    }
  }
}

// The checksums are recomputed, so that the verifier, the planner and the kernels read the mutated contents.
TEST(ProgramTest, EveryFlippedByteOfTheContentsIsSafe) {
  const ArtifactFile intact = *ArtifactFile::Parse(LinearRegression().Bytes());
  const std::string contents = intact.artifact().SerializeAsString();
  int loaded = 0;
  for (size_t i = 0; i < 3 * contents.size(); ++i) {
    std::string flipped = contents;
    flipped[i / 3] = static_cast<char>(flipped[i / 3] ^ (i % 3 == 0 ? 0xff : i % 3 == 1 ? 0x01 : 0x08));
    Artifact artifact;
    if (!artifact.ParseFromString(flipped)) continue;
    const absl::StatusOr<std::shared_ptr<const Program>> program = LoadContents(artifact, intact);
    if (!program.ok()) continue;
    ++loaded;
    RunProgram(*program, 2);
  }
  EXPECT_GT(loaded, 100);
}

}  // namespace
}  // namespace cotan
