// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/dead_code.h"

#include "aot/ir/pass_testutil.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

TEST(EliminateDeadCodeTest, ChainsThatReachNoOutputGoInputsStay) {
  EXPECT_EQ(After(EliminateDeadCode, R"(graph @g {
  %0: f32[2] = user_input 0 "x"
  %1: f32[2] = user_input 1 "unused"
  %2: f32[2] = aten.exp.default(%0)
  %3: f32[2] = aten.log.default(%2)
  %4: f32[1], %5: f32[1] = aten.split.Tensor(%0, 1, 0)
  user_output 0 "y" = %5
})"),
            R"(graph @g {
  %0: f32[2] = user_input 0 "x"
  %1: f32[2] = user_input 1 "unused"
  %2: f32[1], %3: f32[1] = aten.split.Tensor(%0, 1, 0)
  user_output 0 "y" = %3
}
)");
}

TEST(EliminateDeadCodeTest, AGraphWithoutDeadCodeIsUnchanged) {
  Graph graph = *ParseGraph("graph @g {\n  %0: f32[2] = user_input 0 \"x\"\n  user_output 0 \"y\" = %0\n}\n");
  EXPECT_FALSE(*EliminateDeadCode(graph));
}

}  // namespace
}  // namespace cotan::aot
