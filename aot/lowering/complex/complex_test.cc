// SPDX-License-Identifier: Apache-2.0

#include "aot/lowering/complex/complex.h"

#include "aot/ir/text.h"
#include "aot/ir/verifier.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

std::string Split(absl::string_view text) {
  absl::StatusOr<Graph> graph = ParseGraph(text);
  if (!graph.ok()) return std::string(graph.status().message());
  if (const absl::Status status = SplitComplex(*graph); !status.ok()) return std::string(status.message());
  const absl::Status verified = VerifyGraph(*graph);
  EXPECT_TRUE(verified.ok()) << verified;
  graph->Compact();
  return PrintGraph(*graph);
}

TEST(SplitComplexTest, ProductsAreOfParts) {
  EXPECT_EQ(Split(R"(graph @g {
  %0: c64[3] = user_input 0 "x"
  %1: c64[3] = aten.mul.Tensor(%0, 2.0)
  %2: c64[3] = aten.mul.Tensor(%1, %0)
  user_output 0 "y" = %2
}
)"),
            R"(graph @g {
  %0: c64[3] = user_input 0 "x"
  %1: f32[3,2] = aten.view_as_real.default(%0)
  %2: f32[3,2] = aten.mul.Tensor(%1, 2.0)
  %3: f32[3] = aten.select.int(%2, -1, 0)
  %4: f32[3] = aten.select.int(%2, -1, 1)
  %5: f32[3] = aten.select.int(%1, -1, 0)
  %6: f32[3] = aten.select.int(%1, -1, 1)
  %7: f32[3] = aten.mul.Tensor(%3, %5)
  %8: f32[3] = aten.mul.Tensor(%4, %6)
  %9: f32[3] = aten.mul.Tensor(%3, %6)
  %10: f32[3] = aten.mul.Tensor(%4, %5)
  %11: f32[3] = aten.sub.Tensor(%7, %8, 1)
  %12: f32[3] = aten.add.Tensor(%9, %10, 1)
  %13: f32[3,2] = aten.stack.default({%11, %12}, -1)
  %14: c64[3] = aten.view_as_complex.default(%13)
  user_output 0 "y" = %14
}
)");
}

TEST(SplitComplexTest, ViewsAsRealNumbersAreThePairs) {
  EXPECT_EQ(Split(R"(graph @g {
  %0: c128[2,3] = user_input 0 "x"
  %1: c128[3,2] = aten.t.default(%0)
  %2: f64[3,2,2] = aten.view_as_real.default(%1)
  user_output 0 "y" = %2
  user_output 1 "x" = %0
}
)"),
            R"(graph @g {
  %0: c128[2,3] = user_input 0 "x"
  %1: f64[2,3,2] = aten.view_as_real.default(%0)
  %2: f64[3,2,2] = aten.transpose.int(%1, 0, 1)
  user_output 0 "y" = %2
  user_output 1 "x" = %0
}
)");
}

TEST(SplitComplexTest, RealGraphsStayAsTheyAre) {
  constexpr absl::string_view kReal = R"(graph @g {
  %0: f32[2] = user_input 0 "x"
  %1: f32[2] = aten.exp.default(%0)
  user_output 0 "y" = %1
}
)";
  EXPECT_EQ(Split(kReal), kReal);
}

TEST(SplitComplexTest, NamesAllOpsWithoutRealForm) {
  EXPECT_EQ(Split(R"(graph @g {
  %0: c64[3] = user_input 0 "x"
  %1: c64[3] = aten.cumprod.default(%0, 0)
  %2: c64[3] = aten.mul.Tensor(%1, %1)
  %3: c64[3] = aten.acosh.default(%0)
  user_output 0 "y" = %2
  user_output 1 "z" = %3
}
)"),
            "aten.acosh.default, aten.cumprod.default of complex numbers");
}

}  // namespace
}  // namespace cotan::aot
