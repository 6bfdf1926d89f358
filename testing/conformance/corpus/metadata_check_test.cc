// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/harness/metadata_check.h"

#include <ATen/Context.h>

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "serialization/container/container.h"
#include "testing/conformance/harness/compiled_case.h"
#include "testing/conformance/harness/conf_case.h"
#include "testing/conformance/harness/difference.h"
#include "testing/conformance/harness/golden.h"

namespace cotan::conformance {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;

constexpr char kGoldens[] = "testing/conformance/corpus/aotautograd_goldens.json";
// A case without wrappers, and one with a duplicate input, whose golden has metadata after wrappers.
constexpr const char* kCases[] = {"two_outputs_mixed_requires_grad", "duplicate_second_mutated_first_returned"};

ConfCase FindCase(const std::string& name) {
  for (ConfCase& c : build_table()) {
    if (name == c.name) return c;
  }
  ADD_FAILURE() << "the table has no case " << name;
  return {};
}

// Returns the compiled forward of a case.
serialization::Method Forward(const ConfCase& c) {
  const auto bytes = CompileCase(c, /*keep_input_mutations=*/false);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  if (!bytes.ok()) return {};
  const auto file = ArtifactFile::Parse(*bytes);
  EXPECT_TRUE(file.ok()) << file.status();
  if (!file.ok()) return {};
  for (const serialization::Method& method : file->artifact().methods()) {
    if (method.name() == "forward") return method;
  }
  ADD_FAILURE() << "no method 'forward'";
  return {};
}

class MetadataCheckTest : public ::testing::TestWithParam<const char*> {
 protected:
  MetadataCheckTest() : golden_(*Golden::Load(kGoldens)), case_(FindCase(GetParam())) {}

  std::vector<std::string> DifferencesOf(const serialization::Method& method) const {
    Differences differences;
    CompareMetadata(method, *golden_.Find(case_.name), "keep_false", differences);
    return differences.all();
  }

  const Golden golden_;
  const ConfCase case_;
};

TEST_P(MetadataCheckTest, ACompiledCaseAgreesWithTheGolden) { EXPECT_THAT(DifferencesOf(Forward(case_)), IsEmpty()); }

TEST_P(MetadataCheckTest, ATraceWithDeterministicAlgorithmsDiffers) {
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  const serialization::Method forward = Forward(case_);
  at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false);
  EXPECT_THAT(DifferencesOf(forward), Contains("keep_false, deterministic: true instead of false"));
}

TEST_P(MetadataCheckTest, AnUnrecordedDeterministicModeDiffers) {
  serialization::Method forward = Forward(case_);
  forward.mutable_metadata()->clear_deterministic();
  EXPECT_THAT(DifferencesOf(forward), Contains("keep_false, deterministic: null instead of false"));
}

INSTANTIATE_TEST_SUITE_P(Cases, MetadataCheckTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace cotan::conformance
