// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/sync_batch_norm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "aot/ir/text.h"

namespace cotan::aot {
namespace {

TEST(SynchronizeBatchNormTest, OnlyTrainModeIsSynchronized) {
  absl::StatusOr<Graph> graph = ParseGraph(R"(graph @forward {
  %0: f32[4,2] = user_input 0 "x"
  %1: f32[4,2], %2: f32[2], %3: f32[2] = aten._native_batch_norm_legit.no_stats(%0, none, none, true, 0.1, 1e-05)
  %4: f32[4,2], %5: f32[2], %6: f32[2] = aten._native_batch_norm_legit.no_stats(%0, none, none, false, 0.1, 1e-05)
  %7: f32[4,2] = aten.exp.default(%1)
  user_output 0 "y" = %7
  user_output 1 "z" = %4
})");
  ASSERT_TRUE(graph.ok()) << graph.status();
  SynchronizeBatchNorm(*graph);
  std::vector<std::string> ops;
  for (const Node& node : graph->nodes()) ops.push_back(node.op);
  EXPECT_THAT(ops, ::testing::ElementsAre("cotan.sync__native_batch_norm_legit.no_stats",
                                          "aten._native_batch_norm_legit.no_stats", "aten.exp.default"));
}

}  // namespace
}  // namespace cotan::aot
