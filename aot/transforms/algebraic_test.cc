// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/algebraic.h"

#include "aot/ir/pass_testutil.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

TEST(SimplifyAlgebraTest, NodesThatChangeNothingGo) {
  EXPECT_EQ(After(SimplifyAlgebra, R"(graph @g {
  %0: f32[2,3] = user_input 0 "x"
  %1: f32[2,3] = aten.view.default(%0, [2, 3])
  %2: f32[2,3] = aten.clone.default(%1, none)
  %3: f32[2,3] = aten.mul.Tensor(%2, 1.0)
  %4: f32[2,3] = aten.sub.Scalar(%3, 0, 1)
  %5: f32[3,2] = aten.t.default(%4)
  %6: f32[2,3] = aten.t.default(%5)
  %7: f32[2,3] = aten._to_copy.default(%6, f32)
  %8: f32[2,3] = aten.exp.default(%7)
  user_output 0 "y" = %8
  user_output 1 "z" = %7
})"),
            R"(graph @g {
  %0: f32[2,3] = user_input 0 "x"
  %1: f32[2,3] = aten.exp.default(%0)
  user_output 0 "y" = %1
  user_output 1 "z" = %0
}
)");
}

TEST(SimplifyAlgebraTest, WhatChangesSomethingStays) {
  constexpr absl::string_view kText = R"(graph @g {
  %0: f32[2,2] = user_input 0 "x"
  %1: f32[2,2] = aten.add.Tensor(%0, 0, 1)
  %2: f32[2,2] = aten.mul.Tensor(%1, 2)
  %3: f32[4] = aten.view.default(%2, [4])
  %4: f64[4] = aten._to_copy.default(%3, f64)
  %5: f32[2,2] = aten.t.default(%2)
  user_output 0 "y" = %4
  user_output 1 "z" = %5
}
)";
  EXPECT_EQ(After(SimplifyAlgebra, kText), kText);
}

TEST(SimplifyAlgebraTest, DifferentSwapsDoNotCancel) {
  constexpr absl::string_view kText = R"(graph @g {
  %0: f32[2,2,2] = user_input 0 "x"
  %1: f32[2,2,2] = aten.transpose.int(%0, 0, 1)
  %2: f32[2,2,2] = aten.transpose.int(%1, 1, 2)
  user_output 0 "y" = %2
}
)";
  EXPECT_EQ(After(SimplifyAlgebra, kText), kText);
}

}  // namespace
}  // namespace cotan::aot
