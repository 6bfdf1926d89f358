// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/join_slices.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "aot/ir/pass_testutil.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

TEST(JoinSlicesTest, SelectsOfAllPositionsAreConcatenated) {
  EXPECT_EQ(After(JoinSlices, R"(graph @g {
  %0: f32[5] = user_input 0 "a"
  %1: f32[5] = user_input 1 "b"
  %2: f32[5] = user_input 2 "c"
  %3: f32[3,5] = aten.select_backward.default(%0, [3, 5], 0, 2)
  %4: f32[3,5] = aten.select_backward.default(%1, [3, 5], 0, 0)
  %5: f32[3,5] = aten.add.Tensor(%3, %4, 1)
  %6: f32[3,5] = aten.select_backward.default(%2, [3, 5], -2, -2)
  %7: f32[3,5] = aten.add.Tensor(%5, %6, 1)
  user_output 0 "y" = %7
})"),
            R"(graph @g {
  %0: f32[5] = user_input 0 "a"
  %1: f32[5] = user_input 1 "b"
  %2: f32[5] = user_input 2 "c"
  %3: f32[1,5] = aten.unsqueeze.default(%1, 0)
  %4: f32[1,5] = aten.unsqueeze.default(%2, 0)
  %5: f32[1,5] = aten.unsqueeze.default(%0, 0)
  %6: f32[3,5] = aten.cat.default({%3, %4, %5}, 0)
  user_output 0 "y" = %6
}
)");
}

TEST(JoinSlicesTest, OneOtherTermIsAddedToTheHalves) {
  EXPECT_EQ(After(JoinSlices, R"(graph @g {
  %0: f32[2,3] = user_input 0 "a"
  %1: f32[2,5] = user_input 1 "b"
  %2: f32[2,8] = user_input 2 "c"
  %3: f32[2,8] = aten.slice_backward.default(%0, [2, 8], 1, 0, 3, 1)
  %4: f32[2,8] = aten.add.Tensor(%2, %3, 1)
  %5: f32[2,8] = aten.slice_backward.default(%1, [2, 8], 1, 3, 9223372036854775807, 1)
  %6: f32[2,8] = aten.add.Tensor(%4, %5, 1)
  user_output 0 "y" = %6
})"),
            R"(graph @g {
  %0: f32[2,3] = user_input 0 "a"
  %1: f32[2,5] = user_input 1 "b"
  %2: f32[2,8] = user_input 2 "c"
  %3: f32[2,8] = aten.cat.default({%0, %1}, 1)
  %4: f32[2,8] = aten.add.Tensor(%2, %3, 1)
  user_output 0 "y" = %4
}
)");
}

// Each graph adds %3 and %4 in %5.
std::string SumOf(absl::string_view first, absl::string_view second, absl::string_view sum) {
  return absl::StrCat(R"(graph @g {
  %0: f32[s0,4] = user_input 0 "a"
  %1: f32[s0,4] = user_input 1 "b"
  %2: f32[s0,8] = user_input 2 "c"
)",
                      "  %3: f32[s0,8] = ", first, "\n  %4: f32[s0,8] = ", second, "\n  %5: f32[s0,8] = ", sum, R"(
  user_output 0 "y" = %5
  user_output 1 "z" = %2
}
)");
}

TEST(JoinSlicesTest, OtherSumsStay) {
  constexpr absl::string_view kLow = "aten.slice_backward.default(%0, [s0, 8], 1, 0, 4, 1)";
  constexpr absl::string_view kHigh = "aten.slice_backward.default(%1, [s0, 8], 1, 4, 8, 1)";
  constexpr absl::string_view kSum = "aten.add.Tensor(%3, %4, 1)";
  ASSERT_NE(After(JoinSlices, SumOf(kLow, kHigh, kSum)), SumOf(kLow, kHigh, kSum));
  const std::string same[] = {
      SumOf(kLow, "aten.slice_backward.default(%1, [s0, 8], 1, 0, 4, 1)", kSum),  // the same half
      SumOf(kLow, "aten.slice_backward.default(%1, [s0, 8], 1, 3, 7, 1)", kSum),  // they overlap
      SumOf("aten.slice_backward.default(%0, [s0, 8], 1, 0, 8, 2)",               // every other position
            "aten.slice_backward.default(%1, [s0, 8], 1, 1, 8, 2)", kSum),
      SumOf(kLow, kHigh, "aten.add.Tensor(%3, %4, 2)"),  // twice the second
  };
  for (const std::string& text : same) EXPECT_EQ(After(JoinSlices, text), text);
}

TEST(JoinSlicesTest, TermsKeepTheirOrderWithTwoOthers) {
  constexpr absl::string_view kText = R"(graph @g {
  %0: f32[2,4] = user_input 0 "a"
  %1: f32[2,4] = user_input 1 "b"
  %2: f32[2,8] = user_input 2 "c"
  %3: f32[2,8] = user_input 3 "d"
  %4: f32[2,8] = aten.slice_backward.default(%0, [2, 8], 1, 0, 4, 1)
  %5: f32[2,8] = aten.add.Tensor(%2, %4, 1)
  %6: f32[2,8] = aten.add.Tensor(%5, %3, 1)
  %7: f32[2,8] = aten.slice_backward.default(%1, [2, 8], 1, 4, 8, 1)
  %8: f32[2,8] = aten.add.Tensor(%6, %7, 1)
  user_output 0 "y" = %8
}
)";
  EXPECT_EQ(After(JoinSlices, kText), kText);
}

TEST(JoinSlicesTest, APartialSumThatIsReadElsewhereIsATerm) {
  constexpr absl::string_view kText = R"(graph @g {
  %0: f32[2,4] = user_input 0 "a"
  %1: f32[2,4] = user_input 1 "b"
  %2: f32[2,8] = user_input 2 "c"
  %3: f32[2,8] = aten.slice_backward.default(%0, [2, 8], 1, 0, 4, 1)
  %4: f32[2,8] = aten.add.Tensor(%2, %3, 1)
  %5: f32[2,8] = aten.slice_backward.default(%1, [2, 8], 1, 4, 8, 1)
  %6: f32[2,8] = aten.add.Tensor(%4, %5, 1)
  user_output 0 "y" = %6
  user_output 1 "z" = %4
}
)";
  EXPECT_EQ(After(JoinSlices, kText), kText);
}

}  // namespace
}  // namespace cotan::aot
