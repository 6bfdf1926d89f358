// SPDX-License-Identifier: Apache-2.0

#include "aot/lowering/complex/complex_rules.h"

#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "aot/ir/text.h"
#include "aot/ir/verifier.h"
#include "aot/lowering/complex/complex.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

// Returns the real form of a node on z (c64[3]) and x (f32[3]), without the conversions from and to
// complex numbers.
std::string RealForm(absl::string_view type, absl::string_view node) {
  absl::StatusOr<Graph> graph = ParseGraph(absl::StrCat(R"(graph @g {
  %0: c64[3] = user_input 0 "z"
  %1: f32[3] = user_input 1 "x"
  %2: )",
                                                        type, " = ", node, R"(
  user_output 0 "y" = %2
}
)"));
  if (!graph.ok()) return std::string(graph.status().message());
  if (const absl::Status status = SplitComplex(*graph); !status.ok()) return std::string(status.message());
  const absl::Status verified = VerifyGraph(*graph);
  EXPECT_TRUE(verified.ok()) << verified;
  graph->Compact();
  std::string nodes;
  for (const Node& n : graph->nodes()) {
    if (n.op.rfind("aten.view_as_", 0) != 0) absl::StrAppend(&nodes, nodes.empty() ? "" : " ", n.op);
  }
  return nodes;
}

TEST(ComplexRulesTest, EachOpHasOneRule) {
  std::set<absl::string_view> ops;
  for (const auto rows : {ArithmeticComplexRules, FunctionComplexRules, ViewComplexRules, PartwiseComplexRules}) {
    for (const ComplexRuleRow& row : rows()) {
      EXPECT_TRUE(ops.insert(row.op).second) << row.op;
      EXPECT_EQ(FindComplexRule(row.op), row.rule) << row.op;
    }
  }
  EXPECT_EQ(FindComplexRule("aten.acosh.default"), nullptr);
}

TEST(ComplexRulesTest, ScalingIsThatOfThePair) {
  EXPECT_EQ(RealForm("c64[3]", "aten.mul.Tensor(%0, %1)"), "aten.unsqueeze.default aten.mul.Tensor");
}

TEST(ComplexRulesTest, ViewsAreOfThePair) {
  EXPECT_EQ(RealForm("c64[2]", "aten.slice.Tensor(%0, -1, 0, 2, 1)"), "aten.slice.Tensor");
}

TEST(ComplexRulesTest, WhatMovesElementsMovesBothParts) {
  EXPECT_EQ(RealForm("c64[3]", "aten.flip.default(%0, [0])"),
            "aten.select.int aten.flip.default aten.select.int aten.flip.default aten.stack.default");
}

TEST(ComplexRulesTest, ProductsOfMatricesOfOtherKindsHaveNoRealForm) {
  EXPECT_EQ(RealForm("c64[]", "aten.dot.default(%0, %1)"), "aten.dot.default of complex numbers");
}

}  // namespace
}  // namespace cotan::aot
