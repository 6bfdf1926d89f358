// SPDX-License-Identifier: Apache-2.0

// Every program of docs/conformance.md, in eager and in Cotan: each does what the page says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "testing/conformance/documented_programs/documented_program.h"
#include "testing/conformance/documented_programs/programs.h"
#include "testing/conformance/harness/compiled_case.h"
#include "testing/conformance/harness/compiled_run.h"
#include "testing/conformance/harness/eager_run.h"

namespace cotan::conformance {
namespace {

using ::testing::HasSubstr;

// Text that identifies a program in a message.
std::string KeyOf(const DocumentedProgram& program) { return absl::StrCat(program.heading, "\n  ", program.code); }

// Runs a program in eager; nothing, and a failure of the test, if it throws.
std::optional<EagerRun> CallEager(const ConfCase& c) {
  try {
    return RunEager(c, std::nullopt);
  } catch (const std::exception& error) {
    ADD_FAILURE() << "eager refuses it: " << error.what();
    return std::nullopt;
  }
}

void ExpectOfEager(const ExpectEager& expect, const ConfCase& c, const EagerRun& run) {
  SCOPED_TRACE("eager");
  try {
    expect(c, run);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
}

std::string NameOf(const ::testing::TestParamInfo<KnownDifference>& info) { return info.param.c.name; }
std::string NameOfRefusal(const ::testing::TestParamInfo<KnownRefusal>& info) { return info.param.c.name; }

// --- Programs that run -------------------------------------------------------------

class KnownDifferencesTest : public ::testing::TestWithParam<KnownDifference> {};

TEST_P(KnownDifferencesTest, EagerAndCotanDoAsDocumented) {
  const KnownDifference& difference = GetParam();
  SCOPED_TRACE(KeyOf(FindProgram(ProgramsOfConformancePage(), difference.code)));
  const std::optional<EagerRun> eager = CallEager(difference.c);
  if (!eager.has_value()) return;
  ExpectOfEager(difference.expect_eager, difference.c, *eager);

  SCOPED_TRACE("Cotan");
  const absl::StatusOr<std::string> artifact = CompileCase(difference.c, /*keep_input_mutations=*/true);
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  absl::StatusOr<CompiledCase> compiled = CompiledCase::Load(*artifact);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const absl::StatusOr<CompiledRun> run = compiled->Run(difference.c);
  ASSERT_TRUE(run.ok()) << run.status();
  difference.expect_cotan({difference.c, *compiled, *run, *eager});
}

INSTANTIATE_TEST_SUITE_P(Documented, KnownDifferencesTest, ::testing::ValuesIn(KnownDifferences()), NameOf);

// --- Programs that are refused -----------------------------------------------------

// Returns how Cotan refuses a case; nothing if it does not.
std::optional<Refusal> RefusalOf(const ConfCase& c) {
  const absl::StatusOr<std::string> artifact = CompileCase(c, /*keep_input_mutations=*/true);
  if (!artifact.ok()) return Refusal{Stage::kCompile, artifact.status()};
  absl::StatusOr<CompiledCase> compiled = CompiledCase::Load(*artifact);
  if (!compiled.ok()) return Refusal{Stage::kLoad, compiled.status()};
  const absl::StatusOr<CompiledRun> run = compiled->Run(c);
  if (!run.ok()) return Refusal{Stage::kCall, run.status()};
  return std::nullopt;
}

class KnownRefusalsTest : public ::testing::TestWithParam<KnownRefusal> {};

TEST_P(KnownRefusalsTest, EagerRunsItAndCotanRefusesItAsDocumented) {
  const KnownRefusal& expected = GetParam();
  const DocumentedProgram documented = FindProgram(ProgramsOfConformancePage(), expected.code);
  SCOPED_TRACE(KeyOf(documented));
  EXPECT_THAT(documented.cotan, HasSubstr(expected.message)) << "the page has another message";
  const std::optional<EagerRun> eager = CallEager(expected.c);
  if (eager.has_value()) ExpectOfEager(expected.expect_eager, expected.c, *eager);

  SCOPED_TRACE("Cotan");
  const std::optional<Refusal> refusal = RefusalOf(expected.c);
  ASSERT_TRUE(refusal.has_value()) << "it is not refused";
  EXPECT_EQ(StageName(refusal->stage), StageName(expected.stage)) << refusal->status;
  EXPECT_EQ(refusal->status.code(), expected.status) << refusal->status;
  if (expected.stage == Stage::kCall) return;
  EXPECT_THAT(std::string(refusal->status.message()), HasSubstr(expected.message));
}

INSTANTIATE_TEST_SUITE_P(Documented, KnownRefusalsTest, ::testing::ValuesIn(KnownRefusals()), NameOfRefusal);

// --- The page ----------------------------------------------------------------------

TEST(ConformancePageTest, ItsProgramsAreThoseThatAreExecuted) {
  std::vector<std::string> executed;
  for (const KnownDifference& difference : KnownDifferences()) executed.push_back(difference.code);
  for (const KnownRefusal& refusal : KnownRefusals()) executed.push_back(refusal.code);
  std::vector<std::string> documented;
  for (const DocumentedProgram& program : ProgramsOfConformancePage()) documented.push_back(program.code);
  EXPECT_THAT(executed, ::testing::UnorderedElementsAreArray(documented));
}

}  // namespace
}  // namespace cotan::conformance
