// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/common_subexpressions.h"

#include "aot/ir/pass_testutil.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

TEST(EliminateCommonSubexpressionsTest, EqualNodesBecomeOneAndThatMakesMoreEqual) {
  EXPECT_EQ(After(EliminateCommonSubexpressions, R"(graph @g {
  %0: f32[2] = user_input 0 "x"
  %1: f32[2] = aten.exp.default(%0) from "first"
  %2: f32[2] = aten.exp.default(%0) from "second"
  %3: f32[2] = aten.add.Tensor(%1, %0, 1)
  %4: f32[2] = aten.add.Tensor(%2, %0, 1)
  %5: f32[2] = aten.add.Tensor(%2, %0, 2)
  user_output 0 "a" = %3
  user_output 1 "b" = %4
  user_output 2 "c" = %5
})"),
            R"(graph @g {
  %0: f32[2] = user_input 0 "x"
  %1: f32[2] = aten.exp.default(%0) from "first"
  %2: f32[2] = aten.add.Tensor(%1, %0, 1)
  %3: f32[2] = aten.add.Tensor(%1, %0, 2)
  user_output 0 "a" = %2
  user_output 1 "b" = %2
  user_output 2 "c" = %3
}
)");
}

TEST(EliminateCommonSubexpressionsTest, DrawsOfDifferentSlicesDiffer) {
  constexpr absl::string_view kText = R"(graph @g {
  %0: i64[2] = rng_state 0 "rng"
  %1: f32[2] = cotan.random_uniform.default(%0, [2], 0)
  %2: f32[2] = cotan.random_uniform.default(%0, [2], 1)
  user_output 0 "a" = %1
  user_output 1 "b" = %2
}
)";
  EXPECT_EQ(After(EliminateCommonSubexpressions, kText), kText);
}

TEST(EliminateCommonSubexpressionsTest, ResultTypesTellNodesApart) {
  constexpr absl::string_view kText = R"(graph @g {
  %0: f32[2] = user_input 0 "x"
  %1: f64[2] = aten._to_copy.default(%0)
  %2: bool[2] = aten._to_copy.default(%0)
  user_output 0 "a" = %1
  user_output 1 "b" = %2
}
)";
  EXPECT_EQ(After(EliminateCommonSubexpressions, kText), kText);
}

}  // namespace
}  // namespace cotan::aot
