// SPDX-License-Identifier: Apache-2.0

#include "aot/dynamic/trace_comparison.h"

#include "absl/strings/str_cat.h"
#include "aot/ir/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const DynamicShapes kShapes{{{"time", 1, 64, 8}}, {{SymInt::Symbol(0), 4}}};

// Returns a graph that returns a tensor of `type`.
Graph Returning(absl::string_view type) {
  auto graph = ParseGraph(absl::StrCat("graph @forward {\n  %0: ", type,
                                       " = user_input 0 \"input.0\"\n  user_output 0 \"output.0\" = %0\n}\n"));
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

MethodTraces TwoTraces() { return {"forward", {Returning("f32[11,4,1]"), Returning("f32[14,4,1]")}}; }

TEST(TraceComparisonTest, SizesInCommonAreFixed) {
  absl::btree_set<int64_t> fixed;
  AddFixedSizes({TwoTraces()}, fixed);
  EXPECT_THAT(fixed, ElementsAre(4));
  AddFixedSizes({MethodTraces{"eval", {Returning("f32[7]")}}}, fixed);
  EXPECT_THAT(fixed, ElementsAre(4));
}

TEST(TraceComparisonTest, OutputsAtSizeOneHaveTheFixedSizes) {
  const auto check = [](absl::string_view type) {
    return CheckOutputsAtSmallSize(kShapes, {1}, {TwoTraces()}, {Returning(type)});
  };
  EXPECT_TRUE(check("f32[1,4,1]").ok());
  EXPECT_TRUE(check("f32[9,4,1]").ok());
  for (const absl::string_view other : {"f32[1,5,1]", "f32[4,1]", "f64[1,4,1]"}) {
    const absl::Status status = check(other);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << other;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("with time=1, which the declared ranges allow, 'forward' does not return the 'output.0'"));
  }
}

}  // namespace
}  // namespace cotan::aot
