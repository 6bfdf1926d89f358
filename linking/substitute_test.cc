// SPDX-License-Identifier: Apache-2.0

#include "linking/substitute.h"

#include "gtest/gtest.h"

namespace cotan {
namespace {

const SymInt kSymbols[] = {SymInt(3), SymInt::Symbol(7) + SymInt(1)};

TEST(SubstituteTest, SymbolsAreReplacedAndConstantsFolded) {
  EXPECT_EQ(Substitute(SymInt::Symbol(0) * SymInt(4), kSymbols)->constant(), 12);
  EXPECT_EQ(Substitute(SymInt::Symbol(1), kSymbols)->ToString(), "(s7 + 1)");
  EXPECT_EQ(Substitute(SymInt(5), {})->constant(), 5);
}

TEST(SubstituteTest, ASymbolWithoutAReplacementIsRefused) {
  EXPECT_EQ(Substitute(SymInt::Symbol(2), kSymbols).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SubstituteTest, AllSizeExpressionsOfAnOpAreReplaced) {
  serialization::Op expr;
  expr.mutable_expr()->add_domain_sizes("s0");
  expr.mutable_expr()->add_instructions()->set_size("(s0 * 2)");
  expr.mutable_expr()->add_instructions()->set_slice("s1");
  ASSERT_TRUE(SubstituteOp(kSymbols, expr).ok());
  EXPECT_EQ(expr.expr().domain_sizes(0), "3");
  EXPECT_EQ(expr.expr().instructions(0).size(), "6");
  EXPECT_EQ(expr.expr().instructions(1).slice(), "(s7 + 1)");
  serialization::Op view;
  view.mutable_view()->add_steps()->mutable_view()->add_sizes("s0");
  view.mutable_view()->add_steps()->mutable_slice()->set_end("s1");
  view.mutable_view()->add_steps()->mutable_as_strided()->set_offset("s0");
  ASSERT_TRUE(SubstituteOp(kSymbols, view).ok());
  EXPECT_EQ(view.view().steps(0).view().sizes(0), "3");
  EXPECT_EQ(view.view().steps(1).slice().end(), "(s7 + 1)");
  EXPECT_EQ(view.view().steps(2).as_strided().offset(), "3");
  serialization::Op index;
  index.mutable_checked_index()->set_size("s0");
  ASSERT_TRUE(SubstituteOp(kSymbols, index).ok());
  EXPECT_EQ(index.checked_index().size(), "3");
  serialization::Op matmul;
  matmul.mutable_matmul()->mutable_epilogue()->add_domain_sizes("s0");
  ASSERT_TRUE(SubstituteOp(kSymbols, matmul).ok());
  EXPECT_EQ(matmul.matmul().epilogue().domain_sizes(0), "3");
}

}  // namespace
}  // namespace cotan
