#include "testing/conformance/random_program.h"

#include <set>
#include <string>

#include "gtest/gtest.h"
#include "testing/conformance/eager_run.h"

namespace cotan::conformance {
namespace {

bool HasStep(const RandomProgram& program, const std::string& op) {
  for (const RandomStep& step : program.steps) {
    if (step.op == op) return true;
  }
  return false;
}

TEST(GenerateProgram, GivesTheSameProgramForTheSameSeed) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_EQ(ToText(GenerateProgram(seed)), ToText(GenerateProgram(seed))) << "seed " << seed;
  }
}

TEST(GenerateProgram, GivesManyKindsOfPrograms) {
  std::set<std::string> texts;
  bool shares_memory = false;
  bool writes = false;
  bool has_several_outputs = false;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const RandomProgram program = GenerateProgram(seed);
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

TEST(GenerateProgram, GivesProgramsThatEagerRuns) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const RandomProgram program = GenerateProgram(seed);
    SCOPED_TRACE(ToText(program));
    const ConfCase c = CaseOf(program);
    const EagerRun run = RunEager(c, std::nullopt);
    EXPECT_EQ(run.outputs.size(), program.outputs.size());
    EXPECT_NO_THROW(BackwardEager(c, run));
  }
}

RandomProgram MultiplyRowOfInput() {
  RandomProgram program;
  program.bases = {{RandomBase::kComputed, {2, 3}}, {RandomBase::kBuffer, {6}}};
  program.inputs = {{.base = 0}, {.base = 1}, {.base = 0, .views = {{.op = "t", .args = {0}}}}};
  program.steps = {{.op = "sin", .args = {1}, .result = 3},
                   {.op = "select", .args = {2}, .numbers = {0, 1}, .result = 4},
                   {.op = "mul_", .args = {4}, .numbers = {1}, .no_grad = true, .result = 5},
                   {.op = "add_tensors", .args = {3, 1}, .result = 6}};
  program.outputs = {6, 4, 2};
  return program;
}

TEST(ToText, ReadsLikeAProgram) {
  EXPECT_EQ(ToText(MultiplyRowOfInput()),
            "b0 = leaf(0, [2, 3]).clone()\n"
            "b1 = buf(1, [6])\n"
            "v0 = b0\n"
            "v1 = b1\n"
            "v2 = b0.t()\n"
            "---\n"
            "v3 = v1.sin()\n"
            "v4 = v2.select(0, 1)\n"
            "v5 = v4.mul_(1)  # under no_grad\n"
            "v6 = v3.add_tensors(v1)\n"
            "return v6, v4, v2\n");
}

TEST(Shrink, KeepsWhatTheFailureNeeds) {
  const RandomProgram small =
      Shrink(MultiplyRowOfInput(), [](const RandomProgram& program) { return HasStep(program, "mul_"); });
  EXPECT_EQ(ToText(small),
            "b0 = leaf(0, [2, 3]).clone()\n"
            "b1 = buf(1, [6])\n"
            "v0 = b0\n"
            "---\n"
            "v3 = v0.mul_(1)\n"
            "return \n");
}

}  // namespace
}  // namespace cotan::conformance
