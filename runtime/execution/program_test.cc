// SPDX-License-Identifier: Apache-2.0

// Tests that hostile and damaged artifacts give an error or a program that runs, never a crash.
#include "runtime/execution/program.h"

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/session/session.h"
#include "runtime/testing/limited_device.h"
#include "runtime/testing/program_builder.h"
#include "serialization/schema/tensor_type.h"

namespace cotan {
namespace {

using serialization::Artifact;
using serialization::Method;
using serialization::Op;
using ::testing::HasSubstr;
using testing::LimitedDevice;
using testing::LinearRegression;
using testing::TestKernels;

// Returns true if the domain of every expression is small enough for a test.
bool IsCheap(const Method& method, const DimVector& symbols) {
  for (const Op& op : method.ops()) {
    const absl::StatusOr<DimVector> domain = EvaluateSizes(op.expr().domain_sizes(), symbols);
    if (!domain.ok() || BoundedElements(*domain) < 0 || BoundedElements(*domain) > 100000) return false;
  }
  return true;
}

// Calls each method with arguments of the types it declares, dynamic dimensions being `size`. Returns how
// many calls succeeded.
int CallAll(const std::shared_ptr<const Program>& program, int64_t size) {
  LimitedDevice device;
  device.LimitBytes(1 << 20);
  absl::StatusOr<Session> session =
      Session::Create(program, {.kernels = &TestKernels(), .device = &device, .threads = 1});
  if (!session.ok()) return 0;
  const DimVector symbols(static_cast<size_t>(program->artifact().symbols_size()), size);
  int succeeded = 0;
  for (const Method& method : program->artifact().methods()) {
    if (!IsCheap(method, symbols)) continue;
    std::vector<Tensor> arguments;
    for (uint32_t input : method.inputs()) {
      const serialization::TensorType& type = method.values(static_cast<int>(input)).type();
      const absl::StatusOr<StridedLayout> layout = DenseLayout(type, symbols);
      if (!layout.ok() || NumElements(layout->sizes) > 10000) break;
      absl::StatusOr<Tensor> tensor = Tensor::Empty(ToDType(type.dtype()), layout->sizes, device);
      if (!tensor.ok()) break;
      std::fill_n(static_cast<char*>(tensor->storage()->data()), tensor->storage()->bytes(), '\1');
      arguments.push_back(*std::move(tensor));
    }
    if (method.name() == "backward" && !arguments.empty()) arguments.erase(arguments.begin());
    if (session->Run(method.name(), arguments).ok()) ++succeeded;
  }
  return succeeded;
}

// Loads a file with these contents, the segments of `segments_of` and correct checksums.
absl::StatusOr<std::shared_ptr<const Program>> LoadContents(const Artifact& contents, const ArtifactFile& segments_of) {
  ArtifactWriter writer;
  const absl::Status added = writer.AddSegmentsOf(segments_of);
  if (!added.ok()) return added;
  absl::StatusOr<std::string> bytes = std::move(writer).Serialize(contents);
  if (!bytes.ok()) return bytes.status();
  return Program::LoadBytes(*std::move(bytes));
}

TEST(ProgramTest, AnIntactProgramRuns) { EXPECT_EQ(CallAll(LinearRegression().Load(), 2), 4); }

TEST(ProgramTest, ErrorsNameTheFile) {
  const absl::Status status = Program::LoadBytes("PK\x03\x04", "model.zip").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'model.zip'"));
  EXPECT_EQ(Program::Load("/nonexistent/model.cotan").status().code(), absl::StatusCode::kNotFound);
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
      ASSERT_EQ(CallAll(*program, 2), 4) << i;
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
    CallAll(*program, 2);
  }
  EXPECT_GT(loaded, 100);
}

TEST(ProgramTest, RandomlyDamagedContentsAreSafe) {
  std::mt19937_64 random(testing::TestSeed());
  const ArtifactFile intact = *ArtifactFile::Parse(LinearRegression().Bytes());
  const std::string contents = intact.artifact().SerializeAsString();
  int loaded = 0;
  for (int trial = 0; trial < 5000; ++trial) {
    std::string damaged = contents;
    const uint64_t changes = 1 + random() % 3;
    for (uint64_t i = 0; i < changes; ++i) {
      // Small numbers are indexes, tags and lengths: more likely to matter.
      const uint64_t value = random() % 2 == 0 ? random() % 32 : random();
      damaged[random() % damaged.size()] = static_cast<char>(value);
    }
    Artifact artifact;
    if (!artifact.ParseFromString(damaged)) continue;
    const absl::StatusOr<std::shared_ptr<const Program>> program = LoadContents(artifact, intact);
    if (!program.ok()) continue;
    ++loaded;
    CallAll(*program, 2);
  }
  EXPECT_GT(loaded, 50);
}

}  // namespace
}  // namespace cotan
