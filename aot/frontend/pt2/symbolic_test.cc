// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/pt2/symbolic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cotan::aot::pt2 {
namespace {

using ::testing::HasSubstr;

// Symbols are s0 and s1.
absl::StatusOr<SymInt> Parse(absl::string_view text) {
  return ParseSymbolic(text, [](absl::string_view name) { return name == "s0" ? 0 : 1; });
}

int64_t At(absl::string_view text, int64_t s0, int64_t s1) {
  const absl::StatusOr<SymInt> parsed = Parse(text);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  if (!parsed.ok()) return 0;
  const std::vector<int64_t> symbols = {s0, s1};
  const absl::StatusOr<int64_t> value = parsed->Evaluate(symbols);
  EXPECT_TRUE(value.ok()) << value.status();
  return value.ok() ? *value : 0;
}

TEST(SymbolicTest, ReadsCalls) {
  EXPECT_EQ(At("Symbol('s0', positive=True, integer=True)", 7, 0), 7);
  EXPECT_EQ(At("Mul(Integer(17), Symbol('s1', positive=True, integer=True))", 0, 3), 51);
  EXPECT_EQ(At("Add(Integer(-2), Symbol('s0'), Symbol('s1'))", 5, 4), 7);
  EXPECT_EQ(At("FloorDiv(Symbol('s0'), Integer(2))", 7, 0), 3);
  EXPECT_EQ(At("CeilDiv(Symbol('s0'), Integer(2))", 7, 0), 4);
  EXPECT_EQ(At("Mod(Symbol('s0'), Integer(4))", 7, 0), 3);
  EXPECT_EQ(At("Pow(Symbol('s0'), Integer(2))", 7, 0), 49);
  EXPECT_EQ(At("Max(Symbol('s0'), Symbol('s1'), Integer(9))", 7, 8), 9);
  EXPECT_EQ(At("Min(Symbol('s0'), Symbol('s1'), Integer(9))", 7, 8), 7);
  EXPECT_EQ(At("ModularIndexing(Symbol('s0'), Integer(2), Integer(3))", 11, 0), 2);
}

TEST(SymbolicTest, ReadsOperators) {
  EXPECT_EQ(At("17*s1 + 1", 0, 3), 52);
  EXPECT_EQ(At("s0 - s1 - 1", 9, 3), 5);
  EXPECT_EQ(At("(s0 + 1)//2", 6, 0), 3);
  EXPECT_EQ(At("s0**2 % 5", 4, 0), 1);
  EXPECT_EQ(At("-s0 + 10", 4, 0), 6);
  EXPECT_EQ(At("12", 0, 0), 12);
}

TEST(SymbolicTest, NamesAFunctionThatProgramsDoNotHave) {
  const absl::Status status = Parse("Piecewise(Symbol('s0'), Integer(1))").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Piecewise of 2 arguments"));
  EXPECT_EQ(Parse("Pow(Symbol('s0'), Symbol('s1'))").status().code(), absl::StatusCode::kUnimplemented);
  for (const char* text : {"TruncToInt(0.5*s0)", "TruncToInt(Mul(Float('0.5', precision=53), Symbol('s0')))"}) {
    const absl::Status fraction = Parse(text).status();
    EXPECT_EQ(fraction.code(), absl::StatusCode::kUnimplemented) << text;
    EXPECT_THAT(std::string(fraction.message()), HasSubstr("a number that is not an integer")) << text;
  }
}

TEST(SymbolicTest, TellsWhereTextIsNotUnderstood) {
  for (const char* text :
       {"", "s0 +", "s0 s1", "(s0", "Add(s0", "Symbol(s0)", "Symbol('s0', positive)", "99999999999999999999", "$"}) {
    const absl::Status status = Parse(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("is not understood from character")) << text;
  }
}

TEST(SymbolicTest, RefusesDeepNesting) {
  EXPECT_EQ(Parse(std::string(100000, '(')).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Parse(std::string(100000, '-')).status().code(), absl::StatusCode::kInvalidArgument);
}

// Expressions are evaluated recursively, and a power repeats its base.
TEST(SymbolicTest, RefusesLargeExpressions) {
  std::string sum = "s0", power = "s0";
  for (int i = 0; i < 100000; ++i) sum += " + s0";
  for (int i = 0; i < 20; ++i) power = "(" + power + ")**8";
  for (const std::string& text : {sum, power}) {
    const absl::Status status = Parse(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("has more than 2000 operands, or more than 10000"));
  }
  EXPECT_EQ(At("(((s0**2)**2)**2)**2", 2, 0), 65536);
}

}  // namespace
}  // namespace cotan::aot::pt2
