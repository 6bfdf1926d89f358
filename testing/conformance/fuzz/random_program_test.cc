// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/fuzz/random_program.h"

#include "gtest/gtest.h"
#include "testing/conformance/fuzz/test_programs.h"

namespace cotan::conformance {
namespace {

TEST(ToText, PrintsInputsStepsAndOutputs) {
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
