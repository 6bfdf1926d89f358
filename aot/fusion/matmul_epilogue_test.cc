// SPDX-License-Identifier: Apache-2.0

#include "aot/fusion/matmul_epilogue.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "aot/ir/text.h"
#include "aot/ir/verifier.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

constexpr absl::string_view kUpdate = R"(graph @g {
  %0: f32[256,32] = user_input 0 "grad"
  %1: f32[32,128] = user_input 1 "x"
  %2: f32[256,128] = parameter 0 "w"
  %3: f32[] = hyperparameter 0 "lr"
  %4: f32[256,128] = prim.matmul(%0, %1, none) from "layer"
  %5: f32[256,128] = cotan.expr(%2, %4, %3) {
    domain [256,128]
    0: f32 = input 0
    1: f32 = input 1
    2: f32 = input 2
    3: f32 = mul 2 1
    4: f32 = sub 0 3
    store 4
  }
  state_update 0 "w" = %5
}
)";

// Returns the graph after the pass; "" if the pass changed nothing.
std::string Fused(absl::string_view text) {
  absl::StatusOr<Graph> graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  const absl::StatusOr<bool> changed = FuseMatmulEpilogues(*graph);
  EXPECT_TRUE(changed.ok()) << changed.status();
  EXPECT_TRUE(VerifyGraph(*graph).ok()) << VerifyGraph(*graph);
  return *changed ? PrintGraph(*graph) : "";
}

std::string With(absl::string_view from, absl::string_view to) {
  EXPECT_NE(kUpdate.find(from), absl::string_view::npos) << from;
  return absl::StrReplaceAll(kUpdate, {{from, to}});
}

TEST(MatmulEpilogueTest, UpdateTakesTheProductIn) {
  EXPECT_EQ(Fused(kUpdate), R"(graph @g {
  %0: f32[256,32] = user_input 0 "grad"
  %1: f32[32,128] = user_input 1 "x"
  %2: f32[256,128] = parameter 0 "w"
  %3: f32[] = hyperparameter 0 "lr"
  %4: f32[256,128] = prim.matmul_epilogue(%0, %1, %2, %3) from "layer" {
    domain [256,128]
    0: f32 = input 1
    1: f32 = input 0
    2: f32 = input 2
    3: f32 = mul 2 1
    4: f32 = sub 0 3
    store 4
  }
  state_update 0 "w" = %4
}
)");
}

TEST(MatmulEpilogueTest, GradientThatOthersReadIsStored) {
  EXPECT_EQ(Fused(With("  state_update 0", "  user_output 0 \"gradient\" = %4\n  state_update 0")), "");
}

TEST(MatmulEpilogueTest, ExpressionOfOtherFunctionsStays) { EXPECT_EQ(Fused(With("sub 0 3", "maximum 0 3")), ""); }

TEST(MatmulEpilogueTest, ResultThatIsNoStateStays) {
  EXPECT_EQ(Fused(With("state_update 0 \"w\"", "user_output 0 \"y\"")), "");
}

TEST(MatmulEpilogueTest, ADynamicSumIsAsLongAsItIsEstimated) {
  EXPECT_NE(Fused(absl::StrReplaceAll(kUpdate, {{"[256,32]", "[256,s0]"}, {"[32,128]", "[s0,128]"}})), "");
}

TEST(MatmulEpilogueTest, LongSumsAndSmallMatricesStay) {
  EXPECT_EQ(Fused(absl::StrReplaceAll(kUpdate, {{"[256,32]", "[256,257]"}, {"[32,128]", "[257,128]"}})), "");
  EXPECT_EQ(Fused(absl::StrReplaceAll(kUpdate, {{"[32,128]", "[32,60]"}, {"[256,128]", "[256,60]"}})), "");
}

TEST(MatmulEpilogueTest, AddendStays) {
  EXPECT_EQ(Fused(With("prim.matmul(%0, %1, none)", "prim.matmul(%0, %1, %2)")), "");
}

}  // namespace
}  // namespace cotan::aot
