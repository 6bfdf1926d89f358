// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/overlap_collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "aot/ir/collective_node.h"
#include "aot/ir/text.h"
#include "aot/ir/verifier.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {
namespace {

using serialization::Collective;
using ::testing::ElementsAre;

// Returns the ops without their prefix; collectives as "start FUNCTION", "wait" or "FUNCTION".
std::vector<std::string> OpsOf(const Graph& graph) {
  std::vector<std::string> ops;
  for (const Node& node : graph.nodes()) {
    std::string op = node.op.substr(node.op.find('.') + 1);
    if (node.op == kCollectiveOp) {
      const Collective collective = CollectiveOf(node);
      op = absl::StrCat(collective.starts() ? "start " : "", Collective::Function_Name(collective.function()));
    }
    ops.push_back(op);
  }
  return ops;
}

Graph Overlap(const std::string& text, bool changes = true) {
  absl::StatusOr<Graph> graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  const absl::StatusOr<bool> changed = OverlapCollectives(*graph);
  EXPECT_TRUE(changed.ok() && *changed == changes) << changed.status();
  EXPECT_TRUE(VerifyGraph(*graph).ok()) << PrintGraph(*graph);
  return *std::move(graph);
}

TEST(OverlapCollectivesTest, BucketsStartWhenTheyAreReadyAndAreWaitedForTogether) {
  const Graph graph = Overlap(R"(graph @step {
  %0: f32[4,4] = user_input 0 "x"
  %1: f32[4,4] = prim.matmul(%0, %0, none)
  %2: f32[4,4] = prim.matmul(%1, %0, none)
  %3: f32[4,4] = prim.matmul(%2, %0, none)
  %4: f32[4,4], %5: f32[4,4] = cotan.collective({%1, %2}, 1, true, 0, false)
  %6: f32[4,4] = cotan.collective({%3}, 1, true, 0, false)
  %7: f32[4,4] = prim.copy(%6)
  %8: f32[4,4] = prim.copy(%4)
  user_output 0 "a" = %7
  user_output 1 "b" = %8
  user_output 2 "c" = %5
})");
  EXPECT_THAT(OpsOf(graph), ElementsAre("matmul", "matmul", "start ALL_REDUCE", "matmul", "start ALL_REDUCE", "WAIT",
                                        "WAIT", "copy", "copy"));
}

TEST(OverlapCollectivesTest, ACollectiveThatNeedsAnotherStartsAfterItsWait) {
  const Graph graph = Overlap(R"(graph @step {
  %0: f32[8] = user_input 0 "gradient"
  %1: f32[8] = user_input 1 "other"
  %2: f32[4] = cotan.collective({%0}, 2, true, 2, false)
  %3: f32[8] = prim.copy(%1)
  %4: f32[4] = prim.copy(%2)
  %5: f32[8] = cotan.collective({%4}, 3, false, 2, false)
  %6: f32[8] = prim.copy(%3)
  user_output 0 "a" = %5
  user_output 1 "b" = %6
})");
  EXPECT_THAT(OpsOf(graph),
              ElementsAre("start REDUCE_SCATTER", "copy", "WAIT", "copy", "start ALL_GATHER", "copy", "WAIT"));
}

TEST(OverlapCollectivesTest, StatisticsAndCollectivesWithoutWorkMeanwhileStayWhole) {
  const Graph graph = Overlap(R"(graph @step {
  %0: f32[4] = user_input 0 "x"
  %1: f32[4] = cotan.collective({%0}, 1, false, 0, false)
  %2: f32[4] = prim.copy(%0)
  %3: f32[4] = prim.copy(%1)
  %4: f32[4] = cotan.collective({%3}, 1, true, 0, false)
  user_output 0 "a" = %2
  user_output 1 "b" = %4
})",
                              /*changes=*/false);
  EXPECT_THAT(OpsOf(graph), ElementsAre("ALL_REDUCE", "copy", "copy", "ALL_REDUCE"));
}

}  // namespace
}  // namespace cotan::aot
