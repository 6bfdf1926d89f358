#include "aot/lower/fusion_graph.h"

#include "aot/graph/text.h"
#include "aot/graph/verifier.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

constexpr absl::string_view kText = R"(graph @g {
  %0: f32[4,6] = user_input 0 "x"
  %1: f32[4,6] = cotan.expr(%0) {
    domain [4,6]
    0: f32 = input 0
    1: f32 = exp 0
    store 1
  }
  %2: f32[24] = prim.view(%1, [24])
  %3: f32[24] = cotan.expr(%2) {
    domain [24]
    0: f32 = input 0
    1: f32 = neg 0
    2: f32 = abs 0
    store 1
  }
  %4: f32[4,6] = prim.copy(%1)
  user_output 0 "y" = %3
}
)";

TEST(FusionGraphTest, PutsBackWhatItTookWithoutDeadUnitsAndInstructions) {
  Graph graph = *ParseGraph(kText);
  FusionGraph units(graph);
  EXPECT_TRUE(graph.nodes().empty());
  units.DropUnused();
  ASSERT_TRUE(units.Rebuild().ok());
  EXPECT_EQ(graph.nodes().size(), 3u);
  EXPECT_EQ(graph.nodes().back().expr->instructions_size(), 2);
  EXPECT_TRUE(VerifyGraph(graph).ok());
}

TEST(FusionGraphTest, KnowsWhoNeedsWhat) {
  Graph graph = *ParseGraph(kText);
  FusionGraph units(graph);
  EXPECT_EQ(units.Producer(1), 0);
  EXPECT_EQ(units.Producer(0), -1);
  EXPECT_EQ(units.BehindView(2), 1);
  EXPECT_EQ(units.Readers(1), (std::set<int>{2, 3}));
  EXPECT_EQ(units.Descendants(0, 3).size(), 2u);
  EXPECT_EQ(units.Ancestors(2), (absl::flat_hash_set<int>{0, 1}));
  EXPECT_TRUE(units.NeededOutside(1, 0, 2));
  EXPECT_TRUE(units.NeededOutsideThroughViews(1, 0, 2));
  EXPECT_FALSE(units.NeededOutsideThroughViews(3, 2, 2));
  EXPECT_TRUE(units.IsOutput(3));
}

TEST(FusionGraphTest, AReshapedUnitKeepsItsResultsAsViews) {
  Graph graph = *ParseGraph(kText);
  FusionGraph units(graph);
  const FusedExpr& negate = units.ExprOf(2);
  const std::optional<Reshaped> reshaped = Reshape(negate, units.TypesOf(negate.inputs), {4, 6});
  ASSERT_TRUE(reshaped.has_value());
  units.ApplyReshape(2, *reshaped);
  EXPECT_EQ(units.ExprOf(2).inputs, (std::vector<ValueId>{1}));
  EXPECT_EQ(units.BehindView(3), units.ExprOf(2).outputs[0]);
  units.DropUnused();
  ASSERT_TRUE(units.Rebuild().ok());
  EXPECT_TRUE(VerifyGraph(graph).ok()) << VerifyGraph(graph);
}

}  // namespace
}  // namespace cotan::aot
