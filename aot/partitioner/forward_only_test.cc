// SPDX-License-Identifier: Apache-2.0

#include "aot/partitioner/forward_only.h"

#include "aot/ir/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

TEST(ForwardOnlyTest, GradientsTangentsAndTheirNodesAreLeftOut) {
  const absl::StatusOr<Graph> joint = ParseGraph(R"(graph @forward {
  %0: f32[4] = user_input 0 "x"
  %1: f32[4] = tangent 0 "tangent.a"
  %2: f32[4] = aten.exp.default(%0)
  %3: f32[4] = aten.mul.Tensor(%1, %2)
  user_output 0 "y" = %2
  gradient 0 "x" = %3
})");
  ASSERT_TRUE(joint.ok()) << joint.status();
  EXPECT_TRUE(HasBackward(*joint));
  const absl::StatusOr<Graph> forward = ForwardOnly(*joint);
  ASSERT_TRUE(forward.ok()) << forward.status();
  EXPECT_FALSE(HasBackward(*forward));
  EXPECT_EQ(PrintGraph(*forward), R"(graph @forward {
  %0: f32[4] = user_input 0 "x"
  %1: f32[4] = aten.exp.default(%0)
  user_output 0 "y" = %1
}
)");
}

}  // namespace
}  // namespace cotan::aot
