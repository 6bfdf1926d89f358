// SPDX-License-Identifier: Apache-2.0

#include "aot/lowering/complex/complex_node.h"

#include "aot/ir/text.h"
#include "aot/ir/verifier.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

using ::testing::Optional;
using ::testing::Pair;

// A graph with x, which is also used as the pair of z, and the complex y = z * x before its
// rewrite.
class ComplexNodeTest : public ::testing::Test {
 protected:
  ComplexNodeTest() {
    absl::StatusOr<Graph> graph = ParseGraph(R"(graph @g {
  %0: f32[3] = user_input 0 "x"
  %1: f32[2,3,2] = user_input 1 "pair"
  %2: c64[2,3] = aten.view_as_complex.default(%1)
  %3: c64[2,3] = aten.mul.Tensor(%2, %0)
}
)");
    EXPECT_TRUE(graph.ok()) << graph.status();
    graph_ = *std::move(graph);
    at_ = std::prev(graph_.nodes().end());
    pairs_[2] = 1;
  }

  ComplexNode Product() { return ComplexNode(*at_, graph_, at_, math_, pairs_); }

  Graph graph_;
  Graph::NodeList::iterator at_;
  ComplexMath math_{graph_, at_};
  ComplexPairs pairs_;
};

TEST_F(ComplexNodeTest, PartsHaveTheSizesOfTheNumber) {
  ComplexNode n = Product();
  const ValueId imaginary = n.Part(0, 1);
  EXPECT_EQ(n.TypeOf(imaginary).dtype, DType::kFloat32);
  EXPECT_EQ(n.TypeOf(imaginary).sizes, (SymIntVector{2, 3}));
  const Node& select = *std::prev(at_);
  EXPECT_EQ(select.op, "aten.select.int");
  EXPECT_EQ(std::get<Use>(select.arguments[0]).value, 1);
  EXPECT_EQ(std::get<SymInt>(select.arguments[2]), SymInt(1));
}

TEST_F(ComplexNodeTest, RealOperandsHaveAnImaginaryPartOfZero) {
  ComplexNode n = Product();
  EXPECT_TRUE(n.IsComplexOperand(0));
  EXPECT_FALSE(n.IsComplexOperand(1));
  const ComplexValue x = n.Operands(1);
  EXPECT_EQ(x.real, 0);
  EXPECT_TRUE(n.TypeOf(x.imaginary).sizes.empty());
}

TEST_F(ComplexNodeTest, PartsOfResultsAreExpandedToItsSizes) {
  ComplexNode n = Product();
  EXPECT_TRUE(n.Return(0, 0));
  EXPECT_EQ(graph_.value(pairs_.at(3)).type.sizes, (SymIntVector{2, 3, 2}));
  const Node& stack = *std::prev(at_);
  EXPECT_EQ(stack.op, "aten.stack.default");
  for (const Use& part : std::get<std::vector<Use>>(stack.arguments[0])) {
    EXPECT_EQ(n.TypeOf(part.value).sizes, (SymIntVector{2, 3}));
  }
}

TEST(NumberOfTest, NumbersHaveTwoParts) {
  EXPECT_THAT(NumberOf(Argument(2.5)), Optional(Pair(2.5, 0)));
  EXPECT_THAT(NumberOf(Argument(SymInt(3))), Optional(Pair(3, 0)));
  EXPECT_THAT(NumberOf(Argument(true)), Optional(Pair(1, 0)));
  EXPECT_THAT(NumberOf(Argument(std::vector<double>{1, -2})), Optional(Pair(1, -2)));
  EXPECT_EQ(NumberOf(Argument(None{})), std::nullopt);
  EXPECT_TRUE(IsComplexNumber(Argument(std::vector<double>{1, 0})));
  EXPECT_FALSE(IsComplexNumber(Argument(1.0)));
}

}  // namespace
}  // namespace cotan::aot
