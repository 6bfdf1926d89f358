// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/place_host_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "aot/ir/text.h"
#include "aot/ir/verifier.h"

namespace cotan::aot {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> OpsOf(const Graph& graph) {
  std::vector<std::string> ops;
  for (const Node& node : graph.nodes()) ops.push_back(node.op.substr(node.op.find('.') + 1));
  return ops;
}

TEST(PlaceHostCopiesTest, ACopyFollowsItsSourceAndPrecedesItsFirstReader) {
  absl::StatusOr<Graph> graph = ParseGraph(R"(graph @step {
  %0: f32[4,4] = user_input 0 "x"
  %1: f32[4,4] = prim.matmul(%0, %0, none)
  %2: f32[4,4] = prim.matmul(%1, %0, none)
  %3: f32[4,4] = prim.to_host(%1)
  %4: f32[4,4] = prim.from_host(%3)
  %5: f32[4,4] = prim.permute(%4, [1, 0])
  %6: f32[4,4] = prim.copy(%2)
  %7: f32[4,4] = prim.matmul(%6, %5, none)
  user_output 0 "y" = %7
})");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_TRUE(*PlaceHostCopies(*graph));
  EXPECT_TRUE(VerifyGraph(*graph).ok()) << PrintGraph(*graph);
  EXPECT_THAT(OpsOf(*graph), ElementsAre("matmul", "to_host", "matmul", "copy", "from_host", "permute", "matmul"));
  EXPECT_FALSE(*PlaceHostCopies(*graph));
}

TEST(PlaceHostCopiesTest, ASavedInputAndAResultThatIsReadByNoNodeStayInOrder) {
  absl::StatusOr<Graph> graph = ParseGraph(R"(graph @backward {
  %0: f32[4,4] = user_input 0 "x"
  %1: f32[4,4] = saved 0 "saved.0"
  %2: f32[4,4] = prim.from_host(%1)
  %3: f32[4,4] = prim.copy(%0)
  %4: f32[4,4] = prim.to_host(%0)
  user_output 0 "y" = %2
  user_output 1 "z" = %3
  saved_output 0 "saved.0" = %4
})");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_TRUE(*PlaceHostCopies(*graph));
  EXPECT_TRUE(VerifyGraph(*graph).ok()) << PrintGraph(*graph);
  EXPECT_THAT(OpsOf(*graph), ElementsAre("to_host", "copy", "from_host"));
}

}  // namespace
}  // namespace cotan::aot
