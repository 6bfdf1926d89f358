// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/fuzz/shrink_program.h"

#include <string>

#include "gtest/gtest.h"
#include "testing/conformance/fuzz/test_programs.h"

namespace cotan::conformance {
namespace {

TEST(Shrink, KeepsOnlyTheStepsThatTheFailureNeeds) {
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
