#include "testing/conformance/shrink_program.h"

#include <string>

#include "gtest/gtest.h"

namespace cotan::conformance {
namespace {

bool HasStep(const RandomProgram& program, const std::string& op) {
  for (const RandomStep& step : program.steps) {
    if (step.op == op) return true;
  }
  return false;
}

RandomProgram MultiplyRowOfInput() {
  RandomProgram program;
  program.bases = {{RandomBase::kComputed, {2, 3}}, {RandomBase::kBuffer, {6}}};
  program.inputs = {{.base = 0}, {.base = 1}, {.base = 0, .views = {{.op = "t", .args = {0}}}}};
  program.steps = {{.op = "sin", .args = {1}, .result = 3},
                   {.op = "select", .args = {2}, .numbers = {0, 1}, .result = 4},
                   {.op = "mul_", .args = {4}, .numbers = {1}, .mode = RandomStep::kNoGrad, .result = 5},
                   {.op = "add_tensors", .args = {3, 1}, .result = 6}};
  program.outputs = {6, 4, 2};
  return program;
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
