#include "testing/conformance/random_program.h"

#include "gtest/gtest.h"

namespace cotan::conformance {
namespace {

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
            "v5 = v4.mul_(1){no_grad}\n"
            "v6 = v3.add_tensors(v1)\n"
            "return v6, v4, v2\n");
}

}  // namespace
}  // namespace cotan::conformance
