// SPDX-License-Identifier: Apache-2.0

#include "aot/dynamic/number_expr.h"

#include <cmath>

#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

using serialization::Expr;
using ::testing::HasSubstr;

const std::vector<DimVector> kPoints = {{11}, {14}, {13}};

// x * number
Expr Scaled(double number, serialization::DTypeProto dtype = serialization::DTYPE_F32) {
  Expr expr;
  serialization::ExprInstruction& input = *expr.add_instructions();
  input.set_fn(serialization::FN_INPUT);
  input.set_dtype(dtype);
  serialization::ExprInstruction& constant = *expr.add_instructions();
  constant.set_fn(serialization::FN_CONSTANT);
  constant.set_dtype(dtype);
  if (dtype == serialization::DTYPE_I64) {
    constant.set_int_value(static_cast<int64_t>(number));
  } else {
    constant.set_float_value(number);
  }
  serialization::ExprInstruction& product = *expr.add_instructions();
  product.set_fn(serialization::FN_MUL);
  product.set_dtype(dtype);
  product.add_operands(0);
  product.add_operands(1);
  expr.add_outputs(2);
  expr.add_domain_sizes("s0");
  return expr;
}

absl::StatusOr<Expr> Unified(std::vector<Expr> exprs) {
  SizeFitter fitter(kPoints);
  std::vector<Expr*> pointers;
  for (Expr& expr : exprs) pointers.push_back(&expr);
  COTAN_RETURN_IF_ERROR(UnifyExprs(pointers, fitter));
  EXPECT_EQ(exprs[0].SerializeAsString(), exprs[1].SerializeAsString());
  EXPECT_EQ(exprs[0].SerializeAsString(), exprs[2].SerializeAsString());
  return exprs[0];
}

TEST(NumberExprTest, EqualProgramsStayAsTheyAre) {
  const auto unified = Unified({Scaled(2), Scaled(2), Scaled(2)});
  ASSERT_TRUE(unified.ok()) << unified.status();
  EXPECT_EQ(unified->SerializeAsString(), Scaled(2).SerializeAsString());
}

TEST(NumberExprTest, WholeNumbersBecomeSizes) {
  const auto unified = Unified({Scaled(22), Scaled(28), Scaled(26)});
  ASSERT_TRUE(unified.ok()) << unified.status();
  ASSERT_EQ(unified->instructions_size(), 3);
  EXPECT_EQ(unified->instructions(1).fn(), serialization::FN_SIZE);
  EXPECT_EQ(unified->instructions(1).size(), "(s0 * 2)");
  EXPECT_EQ(unified->instructions(1).dtype(), serialization::DTYPE_F32);
  const auto integer = Unified({Scaled(11, serialization::DTYPE_I64), Scaled(14, serialization::DTYPE_I64),
                                Scaled(13, serialization::DTYPE_I64)});
  ASSERT_TRUE(integer.ok()) << integer.status();
  EXPECT_EQ(integer->instructions(1).size(), "s0");
}

// x / number, or, like fusion, x * (1 / number) if that is exact.
Expr Divided(double number) {
  int exponent = 0;
  const bool is_exact = std::frexp(number, &exponent) == 0.5;
  Expr expr = Scaled(is_exact ? 1 / number : number);
  if (!is_exact) expr.mutable_instructions(2)->set_fn(serialization::FN_DIV);
  return expr;
}

TEST(NumberExprTest, QuotientsWrittenAsProductsAtPowersOfTwoAreQuotients) {
  const auto unified = Unified({Divided(22), Divided(28), Divided(26)});
  ASSERT_TRUE(unified.ok()) << unified.status();
  SizeFitter fitter(std::vector<DimVector>{{11}, {16}, {13}});
  std::vector<Expr> exprs = {Divided(11), Divided(16), Divided(13)};
  const std::vector<Expr*> pointers = {&exprs[0], &exprs[1], &exprs[2]};
  ASSERT_TRUE(UnifyExprs(pointers, fitter).ok());
  EXPECT_EQ(exprs[1].instructions(1).size(), "s0");
  EXPECT_EQ(exprs[1].instructions(2).fn(), serialization::FN_DIV);
}

TEST(NumberExprTest, QuotientsAreComputedWideAndRoundedOnce) {
  const auto unified = Unified({Scaled(3.0 / 11), Scaled(3.0 / 14), Scaled(3.0 / 13)});
  ASSERT_TRUE(unified.ok()) << unified.status();
  ASSERT_EQ(unified->instructions_size(), 6);
  EXPECT_EQ(unified->instructions(1).fn(), serialization::FN_SIZE);
  EXPECT_EQ(unified->instructions(2).float_value(), 3.0);
  EXPECT_EQ(unified->instructions(3).fn(), serialization::FN_DIV);
  EXPECT_EQ(unified->instructions(3).dtype(), serialization::DTYPE_F64);
  EXPECT_EQ(unified->instructions(4).fn(), serialization::FN_CAST);
  EXPECT_EQ(unified->instructions(5).operands(1), 4u);
  EXPECT_EQ(unified->outputs(0), 5u);
}

TEST(NumberExprTest, OtherDifferencesAreRefused) {
  EXPECT_THAT(Unified({Scaled(1.5), Scaled(-300), Scaled(0.25)}).status().message(), HasSubstr("not a known function"));
  Expr other = Scaled(2);
  other.mutable_instructions(2)->set_fn(serialization::FN_ADD);
  EXPECT_THAT(Unified({Scaled(2), other, Scaled(2)}).status().message(), HasSubstr("something else"));
}

}  // namespace
}  // namespace cotan::aot
