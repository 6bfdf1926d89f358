// SPDX-License-Identifier: Apache-2.0

#include "aot/ir/same_value.h"

#include "aot/ir/text.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

TEST(SameValueTest, ComparesOpsArgumentsAndOperands) {
  const absl::StatusOr<Graph> graph = ParseGraph(R"(graph @f {
  %0: f32[4] = user_input 0 "x"
  %1: f32[4] = user_input 1 "y"
  %2: bool[4] = aten.gt.Scalar(%0, 0.5)
  %3: bool[4] = aten.gt.Scalar(%0, 0.5)
  %4: bool[4] = aten.gt.Scalar(%1, 0.5)
  %5: bool[4] = aten.gt.Scalar(%0, 0.25)
  %6: i64[] = aten.sum.default(%2)
  %7: i64[] = aten.sum.default(%3)
  %8: i64[] = aten.sum.default(%4)
  %9: i64[] = aten.sum.default(%5)
  user_output 0 "output.0" = %6
})");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_TRUE(ComputesSame(*graph, 6, 6));
  EXPECT_TRUE(ComputesSame(*graph, 6, 7));
  EXPECT_FALSE(ComputesSame(*graph, 6, 8));
  EXPECT_FALSE(ComputesSame(*graph, 6, 9));
  EXPECT_FALSE(ComputesSame(*graph, 0, 1));
  EXPECT_FALSE(ComputesSame(*graph, 2, 6));
}

}  // namespace
}  // namespace cotan::aot
