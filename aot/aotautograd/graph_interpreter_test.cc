// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/graph_interpreter.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "aot/ir/text.h"

namespace cotan::aot {
namespace {

using ::testing::HasSubstr;

TEST(GraphInterpreterTest, RunsOpsInOrder) {
  const auto graph = ParseGraph(R"(graph @g {
  %0: f32[2,3] = user_input 0 "input.0"
  %1: f32[3] = user_input 1 "input.1"
  %2: f32[2,3] = aten.add.Tensor(%0, 2, 1)
  %3: f32[2,3] = aten.mul.Tensor(%2, %1)
  %4: f32[1,3], %5: f32[1,3] = aten.split.Tensor(%3, 1, 0)
  user_output 0 "output.0" = %5
  gradient 0 "input.0" = none
}
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const at::Tensor a = at::rand({2, 3}), b = at::rand({3});
  const auto outputs = InterpretGraph(*graph, {a, b});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_TRUE((*outputs)[0].equal(((a + 2) * b).slice(0, 1, 2)));
  EXPECT_FALSE((*outputs)[1].defined());
}

TEST(GraphInterpreterTest, NamesAnUnknownOp) {
  const auto graph = ParseGraph(R"(graph @g {
  %0: f32[2] = user_input 0 "input.0"
  %1: f32[2] = aten.no_such_op.default(%0)
  user_output 0 "output.0" = %1
}
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(std::string(InterpretGraph(*graph, {at::ones({2})}).status().message()),
              HasSubstr("LibTorch has no op aten.no_such_op.default"));
}

}  // namespace
}  // namespace cotan::aot
