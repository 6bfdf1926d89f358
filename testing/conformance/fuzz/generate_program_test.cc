// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/fuzz/generate_program.h"

#include <set>
#include <string>

#include "gtest/gtest.h"
#include "testing/conformance/fuzz/test_programs.h"
#include "testing/conformance/harness/eager_run.h"

namespace cotan::conformance {
namespace {

TEST(GenerateProgram, IsDeterministicForASeed) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    for (const ProgramRange range : {ProgramRange::kPlain, ProgramRange::kWide}) {
      EXPECT_EQ(ToText(GenerateProgram(seed, range)), ToText(GenerateProgram(seed, range))) << "seed " << seed;
    }
  }
}

TEST(GenerateProgram, CoversManyKindsOfPrograms) {
  std::set<std::string> texts;
  bool shares_memory = false;
  bool writes = false;
  bool has_several_outputs = false;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const RandomProgram program = GenerateProgram(seed, ProgramRange::kWide);
    texts.insert(ToText(program));
    shares_memory |= program.inputs.size() > program.bases.size();
    writes |= HasStep(program, "mul_");
    has_several_outputs |= program.outputs.size() > 1;
  }
  EXPECT_GT(texts.size(), 95u);
  EXPECT_TRUE(shares_memory);
  EXPECT_TRUE(writes);
  EXPECT_TRUE(has_several_outputs);
}

TEST(GenerateProgram, ReturnsProgramsThatEagerRuns) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const RandomProgram program = GenerateProgram(seed, ProgramRange::kWide);
    SCOPED_TRACE(ToText(program));
    const ConfCase c = CaseOf(program);
    const EagerRun run = RunEager(c, std::nullopt);
    EXPECT_EQ(run.outputs.size(), program.outputs.size());
    EXPECT_NO_THROW(BackwardEager(c, run));
  }
}

}  // namespace
}  // namespace cotan::conformance
