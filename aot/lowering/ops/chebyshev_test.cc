// SPDX-License-Identifier: Apache-2.0

#include "aot/lowering/ops/chebyshev.h"

#include "aot/ir/text.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

int CountNodes(DType dtype, absl::Span<const double> coefficients, std::string* type = nullptr) {
  Graph graph;
  Builder b(&graph);
  const Tensor t = b.Value(graph.AddInput({dtype, {4, 2}, {}}, InputKind::kUserInput, 0, "t"));
  const Tensor sum = ChebyshevSum(b, t, coefficients);
  EXPECT_TRUE(b.status().ok()) << b.status();
  if (type != nullptr) *type = PrintType(sum.type());
  return static_cast<int>(graph.nodes().size());
}

TEST(ChebyshevTest, TheSumHasTheTypeOfItsArgument) {
  std::string type;
  CountNodes(DType::kFloat64, {{1.0}}, &type);
  EXPECT_EQ(type, "f64[4,2]");
  CountNodes(DType::kFloat32, {{1.0, 0.5, 0.25}}, &type);
  EXPECT_EQ(type, "f32[4,2]");
}

TEST(ChebyshevTest, CoefficientsBelowTheRoundingOfTheDTypeAreLeftOut) {
  const double coefficients[] = {1, 0.5, 1e-3, 1e-12, 1e-14};
  EXPECT_LT(CountNodes(DType::kFloat32, coefficients), CountNodes(DType::kFloat64, coefficients));
}

}  // namespace
}  // namespace cotan::aot
