// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/drop_barriers.h"

#include "aot/ir/text.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

TEST(DropBarriersTest, ReadersAndOutputsGetTheOperand) {
  absl::StatusOr<Graph> graph = ParseGraph(R"(graph @g {
  %0: f32[4] = user_input 0 "x"
  %1: f32[4] = prim.barrier(%0, [4])
  %2: f32[4] = prim.copy(%1)
  %3: f32[4] = prim.barrier(%1, [4])
  user_output 0 "y" = %2
  user_output 1 "z" = %3
})");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_TRUE(*DropBarriers(*graph));
  ASSERT_EQ(graph->nodes().size(), 1u);
  EXPECT_EQ(TensorOperands(graph->nodes().front())[0], graph->inputs()[0].value);
  EXPECT_EQ(graph->outputs()[1].value, graph->inputs()[0].value);
  EXPECT_FALSE(*DropBarriers(*graph));
}

}  // namespace
}  // namespace cotan::aot
