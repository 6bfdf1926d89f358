// SPDX-License-Identifier: Apache-2.0

#include "aot/ir/expr_text.h"

#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

std::vector<absl::string_view> Lines(absl::string_view text) { return absl::StrSplit(text, '\n', absl::SkipEmpty()); }

TEST(ExprTextTest, EveryFormRoundTrips) {
  constexpr absl::string_view kText =
      "domain [32,(s0 * 4),max(s1, 1)] reduce [1,2]\n"
      "0: f32 = input 2\n"
      "1: f32 = constant -0.125\n"
      "2: i64 = constant -7\n"
      "3: f32 = size (s0 * 4)\n"
      "4: i32 = iota 1\n"
      "5: f32 = random_uniform 1 slice (s0 * 2)\n"
      "6: f32 = add 0 1\n"
      "7: bool = lt 6 5\n"
      "8: f32 = select 7 6 0\n"
      "9: f32 = reduce_sum 8\n"
      "store 9 8\n";
  const absl::StatusOr<serialization::Expr> expr = ParseExpr(Lines(kText));
  ASSERT_TRUE(expr.ok()) << expr.status();
  EXPECT_EQ(expr->instructions_size(), 10);
  EXPECT_EQ(PrintExpr(*expr), kText);
}

TEST(ExprTextTest, EveryFunctionHasAName) {
  for (int fn = serialization::ScalarFn_MIN + 1; fn <= serialization::ScalarFn_MAX; ++fn) {
    if (serialization::ScalarFn_IsValid(fn)) {
      EXPECT_NE(ScalarFnName(static_cast<serialization::ScalarFn>(fn)), "") << fn;
    }
  }
}

TEST(ExprTextTest, NumbersReadBackEqual) {
  EXPECT_EQ(PrintDouble(1.0), "1.0");
  EXPECT_EQ(PrintDouble(0.1), "0.1");
  EXPECT_EQ(PrintDouble(1e-5), "1e-05");
  EXPECT_EQ(PrintDouble(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(PrintDouble(1.0 / 3), "0.3333333333333333");
}

TEST(ExprTextTest, ErrorsNameTheLine) {
  const absl::StatusOr<serialization::Expr> expr = ParseExpr(Lines("domain [2]\n0: f32 = frobnicate 1\nstore 0\n"));
  EXPECT_EQ(expr.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(expr.status().message().find("frobnicate"), std::string::npos);
  EXPECT_FALSE(ParseExpr(Lines("domain [2]\n1: f32 = input 0\nstore 0\n")).ok());
  EXPECT_FALSE(ParseExpr(Lines("store 0\n")).ok());
}

}  // namespace
}  // namespace cotan::aot
