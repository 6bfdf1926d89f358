// SPDX-License-Identifier: Apache-2.0

#include "aot/partitioner/cut_at_sizes.h"

#include <string>
#include <vector>

#include "aot/ir/text.h"
#include "aot/ir/verifier.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Graph Parsed(const std::string& text) {
  absl::StatusOr<Graph> graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

// Cuts a graph and verifies all parts.
std::vector<SizingGraph> Cut(Graph& graph) {
  absl::StatusOr<std::vector<SizingGraph>> sizing = CutAtSizes(graph);
  EXPECT_TRUE(sizing.ok()) << sizing.status();
  for (const SizingGraph& part : *sizing) EXPECT_TRUE(VerifyGraph(part.graph).ok()) << VerifyGraph(part.graph);
  EXPECT_TRUE(VerifyGraph(graph).ok()) << VerifyGraph(graph);
  return *std::move(sizing);
}

TEST(CutAtSizesTest, AGraphWithFixedSizesStaysWhole) {
  Graph graph = Parsed(R"(graph @f {
  %0: f32[4,3] = user_input 0 "x"
  %1: f32[3,4] = prim.permute(%0, [1, 0])
  user_output 0 "output.0" = %1
})");
  EXPECT_FALSE(HasLeadingRows(graph));
  EXPECT_TRUE(Cut(graph).empty());
}

// The count needs %3 and %4; %5 is needed by both parts, and the view %2 is computed in both.
TEST(CutAtSizesTest, TheSizingGraphComputesWhatTheCountNeeds) {
  Graph graph = Parsed(R"(graph @f {
  %0: f32[4,3] = user_input 0 "x"
  %1: f32[3] = parameter 0 "w"
  %2: f32[3,4] = prim.permute(%0, [1, 0])
  %3: f32[3,4] = prim.copy(%2)
  %4: i64[9] = aten.rows.default(%3, %1)
  %5: i64[] = aten.count.default(%3)
  %6: i64[5] = cotan.leading_rows(%4, %5, 5, "nonzero")
  %7: f32[5,3] = prim.gather(%0, %6, 0)
  %8: f32[3,4] = aten.other.default(%2, %3)
  user_output 0 "output.0" = %7
  user_output 1 "output.1" = %8
})");
  EXPECT_TRUE(HasLeadingRows(graph));
  const std::vector<SizingGraph> sizing = Cut(graph);
  ASSERT_EQ(sizing.size(), 1);
  EXPECT_EQ(PrintGraph(sizing[0].graph), R"(graph @f {
  %0: f32[4,3] = user_input 0 "x"
  %1: f32[3] = parameter 0 "w"
  %2: f32[3,4] = prim.permute(%0, [1, 0])
  %3: f32[3,4] = prim.copy(%2)
  %4: i64[9] = aten.rows.default(%3, %1)
  %5: i64[] = aten.count.default(%3)
  user_output 0 "" = %4
  user_output 1 "nonzero" = %5
  user_output 2 "" = %3
}
)");
  EXPECT_EQ(PrintGraph(graph), R"(graph @f {
  %0: f32[4,3] = user_input 0 "x"
  %1: f32[3] = parameter 0 "w"
  %2: i64[5] = saved 0 "continued.0"
  %3: f32[3,4] = saved 1 "continued.1"
  %4: f32[3,4] = prim.permute(%0, [1, 0])
  %5: f32[5,3] = prim.gather(%0, %2, 0)
  %6: f32[3,4] = aten.other.default(%4, %3)
  user_output 0 "output.0" = %5
  user_output 1 "output.1" = %6
}
)");
  ASSERT_EQ(sizing[0].continued.size(), 2);
  EXPECT_EQ(sizing[0].continued[0].index, 0);
  EXPECT_EQ(sizing[0].continued[0].count, 1);
  EXPECT_FALSE(sizing[0].continued[0].from_inputs);
  EXPECT_EQ(sizing[0].continued[1].index, 2);
  EXPECT_EQ(sizing[0].continued[1].count, -1);
}

// The second count needs rows of the first; a value of the first part that only the last one reads passes through the
// second.
TEST(CutAtSizesTest, CountsOfCountedRowsMakeAChain) {
  Graph graph = Parsed(R"(graph @f {
  %0: f32[8] = user_input 0 "x"
  %1: i64[9] = aten.rows.default(%0)
  %2: i64[] = aten.count.default(%0)
  %3: i64[5] = cotan.leading_rows(%1, %2, 5, "a")
  %4: f32[5] = prim.gather(%0, %3, 0)
  %5: i64[7] = aten.rows.default(%4)
  %6: i64[] = aten.count.default(%4)
  %7: i64[3] = cotan.leading_rows(%5, %6, 3, "b")
  %8: f32[3] = prim.gather(%4, %7, 0)
  %9: f32[3] = aten.all.default(%8, %1)
  user_output 0 "output.0" = %9
})");
  const std::vector<SizingGraph> sizing = Cut(graph);
  ASSERT_EQ(sizing.size(), 2);
  EXPECT_THAT(PrintGraph(sizing[0].graph), Not(HasSubstr("prim.gather")));
  EXPECT_THAT(PrintGraph(sizing[1].graph), HasSubstr("user_output 2 \"b\" = %5"));
  EXPECT_THAT(PrintGraph(graph), HasSubstr("aten.all.default"));
  EXPECT_THAT(PrintGraph(graph), Not(HasSubstr("aten.rows.default")));
  bool passes_through = false;
  for (const ContinuedValue& value : sizing[1].continued) passes_through = passes_through || value.from_inputs;
  EXPECT_TRUE(passes_through);
}

// Effects and updates happen in the last part.
TEST(CutAtSizesTest, EffectsAndUpdatesStayInTheLastPart) {
  Graph graph = Parsed(R"(graph @f {
  %0: f32[8] = user_input 0 "x"
  %1: f32[8] = buffer 0 "b"
  %2: bool[0] = token 0 "token"
  %3: bool[0] = prim.effect(%2, %0, "print", "x", "")
  %4: i64[9] = aten.rows.default(%1)
  %5: i64[] = aten.count.default(%1)
  %6: i64[5] = cotan.leading_rows(%4, %5, 5, "a")
  %7: f32[5] = prim.gather(%0, %6, 0)
  %8: f32[8] = aten.next.default(%1)
  token_output 0 "token" = %3
  mutated_input 1 "b" = %8
  user_output 0 "output.0" = %7
})");
  const std::vector<SizingGraph> sizing = Cut(graph);
  ASSERT_EQ(sizing.size(), 1);
  EXPECT_THAT(PrintGraph(sizing[0].graph), Not(HasSubstr("token")));
  EXPECT_THAT(PrintGraph(sizing[0].graph), Not(HasSubstr("mutated_input")));
  EXPECT_THAT(PrintGraph(graph), HasSubstr("prim.effect"));
  EXPECT_THAT(PrintGraph(graph), HasSubstr("mutated_input 1 \"b\""));
}

}  // namespace
}  // namespace cotan::aot
