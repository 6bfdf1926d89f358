// SPDX-License-Identifier: Apache-2.0

#include "aot/ir/graph.h"

#include "aot/ir/text.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

constexpr absl::string_view kText = R"(graph @g {
  %0: f32[2] = user_input 0 "x"
  %1: f32[2] = aten.exp.default(%0)
  %2: f32[4] = aten.cat.default({%0, %1}, 0)
  user_output 0 "y" = %2
}
)";

TEST(GraphTest, ReplaceAllUsesReachesArgumentsListsAndOutputs) {
  Graph graph = *ParseGraph(kText);
  graph.ReplaceAllUses(1, 0);
  graph.ReplaceAllUses(2, 0);
  EXPECT_EQ(TensorOperands(graph.nodes().back()), (std::vector<ValueId>{0, 0}));
  EXPECT_EQ(graph.outputs()[0].value, 0);
}

TEST(GraphTest, CompactDropsUnusedValuesAndKeepsTheText) {
  Graph graph;
  graph.name = "g";
  graph.AddValue({DType::kFloat32, {}, {}});
  const TensorType type{DType::kFloat32, {SymInt(2)}, {}};
  const ValueId x = graph.AddInput(type, InputKind::kUserInput, 0, "x");
  graph.AddValue(type);
  const Node& node = graph.InsertNode(graph.nodes().end(), "aten.exp.default", {Use{x}}, {type});
  graph.AddOutput(node.outputs[0], OutputKind::kUserOutput, 0, "y");
  const std::string before = PrintGraph(graph);
  graph.Compact();
  EXPECT_EQ(graph.num_values(), 2);
  EXPECT_EQ(PrintGraph(graph), before);
}

TEST(GraphTest, CopiesAreDeep) {
  const Graph graph = *ParseGraph(kText);
  Graph copy = graph;
  copy.nodes().clear();
  EXPECT_EQ(PrintGraph(graph), kText);
}

}  // namespace
}  // namespace cotan::aot
