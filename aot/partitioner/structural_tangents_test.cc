// SPDX-License-Identifier: Apache-2.0

#include "aot/partitioner/structural_tangents.h"

#include "aot/ir/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(IdleTangentsTest, AreThoseThatNoOpReadsAnyMore) {
  const absl::StatusOr<Graph> traced = ParseGraph(R"(graph @forward {
  %0: f32[4] = user_input 0 "x"
  %1: f32[4] = user_input 1 "y"
  %2: f32[4] = tangent 0 "tangent.a"
  %3: f32[4] = tangent 1 "tangent.b"
  %4: f32[4] = aten.zeros_like.default(%2, none, none, none, none, none)
  %5: f32[4] = aten.add.Tensor(%4, %3, 1)
  %6: f32[4] = aten.neg.default(%3)
  gradient 0 "x" = %5
  gradient 1 "y" = %6
})");
  ASSERT_TRUE(traced.ok()) << traced.status();
  const absl::StatusOr<Graph> backward = ParseGraph(R"(graph @backward {
  %0: f32[4] = tangent 0 "tangent.a"
  %1: f32[4] = tangent 1 "tangent.b"
  %2: f32[4] = prim.copy(%1)
  gradient 0 "x" = %2
  gradient 1 "y" = %2
})");
  ASSERT_TRUE(backward.ok()) << backward.status();
  EXPECT_THAT(StructuralTangents(*traced, *backward), ElementsAre(ElementsAre(0), IsEmpty()));
}

TEST(IdleTangentsTest, AreToldOfGradientsThatExist) {
  const absl::StatusOr<Graph> graph = ParseGraph(R"(graph @forward {
  %0: f32[4] = user_input 0 "x"
  %1: f32[4] = user_input 1 "y"
  %2: f32[4] = tangent 0 "tangent.a"
  %3: f32[4] = aten.neg.default(%2)
  gradient 0 "x" = none
  gradient 1 "y" = %3
})");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(StructuralTangents(*graph, *graph), ElementsAre(IsEmpty()));
}

}  // namespace
}  // namespace cotan::aot
