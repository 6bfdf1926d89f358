// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/constant_folding.h"

#include "aot/ir/pass_testutil.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

TEST(FoldConstantsTest, ArithmeticOnFillsBecomesAFill) {
  EXPECT_EQ(After(FoldConstants, R"(graph @g {
  %0: f32[2] = user_input 0 "x"
  %1: f32[] = aten.ones.default([])
  %2: f32[2] = aten.expand.default(%1, [2], false)
  %3: f32[2] = aten.div.Scalar(%2, 4)
  %4: f32[2] = aten.neg.default(%3)
  %5: f32[2] = aten.add.Tensor(%4, %3, 3)
  %6: f32[2] = aten.mul.Tensor(%0, %5)
  user_output 0 "y" = %6
})"),
            R"(graph @g {
  %0: f32[2] = user_input 0 "x"
  %1: f32[2] = aten.full.default([2], 0.5)
  %2: f32[2] = aten.mul.Tensor(%0, %1)
  user_output 0 "y" = %2
}
)");
}

TEST(FoldConstantsTest, ResultsAreRoundedToTheDType) {
  EXPECT_EQ(After(FoldConstants, R"(graph @g {
  %0: f32[1] = aten.full.default([1], 0.1)
  %1: f32[1] = aten.mul.Tensor(%0, 0.1)
  user_output 0 "y" = %1
})"),
            R"(graph @g {
  %0: f32[1] = aten.full.default([1], 0.010000000707805157)
  user_output 0 "y" = %0
}
)");
}

TEST(FoldConstantsTest, IntegersAndUnknownsStay) {
  constexpr absl::string_view kText = R"(graph @g {
  %0: f32[2] = user_input 0 "x"
  %1: i64[2] = aten.full.default([2], 3)
  %2: i64[2] = aten.mul.Tensor(%1, 2)
  %3: f32[2] = aten.mul.Tensor(%0, 2)
  user_output 0 "y" = %2
  user_output 1 "z" = %3
}
)";
  EXPECT_EQ(After(FoldConstants, kText), kText);
}

}  // namespace
}  // namespace cotan::aot
