// SPDX-License-Identifier: Apache-2.0

#include "aot/ir/prim_node.h"

#include <stdexcept>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "aot/ir/text.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

// Returns the only node of a graph with input %0.
Node Parse(absl::string_view line) {
  const Graph graph = *ParseGraph(absl::StrCat("graph @g {\n%0: f32[4,6] = user_input 0 \"x\"\n", line, "\n}"));
  return graph.nodes().front();
}

TEST(PrimNodeTest, NodesAreRecognizedByOpAndKind) {
  const Node pool = Parse("%1: f32[4,6] = prim.avg_pool(%0, [2], [2], [0], [1], false, true, 0)");
  EXPECT_EQ(PrimOpOf(pool), PrimOp::kAvgPool);
  EXPECT_TRUE(IsPrim(pool, PrimOp::kAvgPool));
  EXPECT_FALSE(IsPrim(pool, PrimOp::kMaxPool));
  EXPECT_TRUE(IsPrim(pool, PrimKind::kPool));
  EXPECT_FALSE(IsView(pool));
  EXPECT_TRUE(IsView(Parse("%1: f32[6,4] = prim.permute(%0, [1, 0])")));
}

TEST(PrimNodeTest, NodesOfOtherDialectsAreNone) {
  const Node node = Parse("%1: f32[4,6] = aten.exp.default(%0)");
  EXPECT_EQ(PrimOpOf(node), std::nullopt);
  EXPECT_FALSE(IsPrim(node, PrimKind::kView));
  EXPECT_THROW(ArgumentIndex(node, "x"), std::out_of_range);
}

TEST(PrimNodeTest, ArgumentsAreReadByName) {
  const Node scatter = Parse("%1: f32[4,6] = prim.scatter_add(%0, %0, none, 1, -1)");
  EXPECT_EQ(OperandOf(scatter, "index"), 0);
  EXPECT_TRUE(IsNone(scatter, "base"));
  EXPECT_FALSE(IsNone(scatter, "rows"));
  EXPECT_EQ(IntAttribute(scatter, "padding_index"), -1);
  EXPECT_THROW(ArgumentIndex(scatter, "sizes"), std::out_of_range);

  const Node permute = Parse("%1: f32[6,4] = prim.permute(%0, [1, 0])");
  EXPECT_EQ(IntListAttribute(permute, "dims"), (std::vector<int64_t>{1, 0}));
  const Node recurrent = Parse("%1: f32[4,6] = prim.recurrent(%0, %0, %0, none, \"gru\", true)");
  EXPECT_EQ(Attribute<std::string>(recurrent, "cell"), "gru");
  EXPECT_TRUE(Attribute<bool>(recurrent, "reverse"));
}

}  // namespace
}  // namespace cotan::aot
