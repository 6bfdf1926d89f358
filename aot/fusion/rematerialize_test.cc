// SPDX-License-Identifier: Apache-2.0

#include "aot/fusion/rematerialize.h"

#include "absl/strings/str_replace.h"
#include "aot/ir/text.h"
#include "aot/ir/verifier.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

// Two programs around a product; the first stores FUNCTION of its input for
// the second.
std::string After(absl::string_view function) {
  const std::string text = absl::StrReplaceAll(R"(graph @g {
  %0: f32[64,64] = user_input 0 "x"
  %1: f32[64,64], %2: f32[64,64] = cotan.expr(%0) {
    domain [64,64]
    0: f32 = input 0
    1: f32 = neg 0
    2: f32 = FUNCTION 0
    store 1 2
  }
  %3: f32[64,64] = prim.matmul(%1, %1, none)
  %4: f32[64,64] = cotan.expr(%3, %2) {
    domain [64,64]
    0: f32 = input 0
    1: f32 = input 1
    2: f32 = mul 0 1
    store 2
  }
  user_output 0 "y" = %4
})",
                                               {{"FUNCTION", function}});
  Graph graph = *ParseGraph(text);
  FusionGraph units(graph);
  RematerializeCheapOps(units);
  units.DropUnused();
  EXPECT_TRUE(units.Rebuild().ok());
  graph.Compact();
  EXPECT_TRUE(VerifyGraph(graph).ok()) << VerifyGraph(graph);
  return PrintGraph(graph);
}

TEST(RepeatCheapFunctionsTest, ACheapFunctionIsComputedAgain) {
  EXPECT_EQ(After("abs"), R"(graph @g {
  %0: f32[64,64] = user_input 0 "x"
  %1: f32[64,64] = cotan.expr(%0) {
    domain [64,64]
    0: f32 = input 0
    1: f32 = neg 0
    store 1
  }
  %2: f32[64,64] = prim.matmul(%1, %1, none)
  %3: f32[64,64] = cotan.expr(%0, %2) {
    domain [64,64]
    0: f32 = input 0
    1: f32 = abs 0
    2: f32 = input 1
    3: f32 = mul 2 1
    store 3
  }
  user_output 0 "y" = %3
}
)");
}

TEST(RepeatCheapFunctionsTest, ADearFunctionIsStored) {
  EXPECT_NE(After("exp").find("store 1 2"), std::string::npos) << After("exp");
}

}  // namespace
}  // namespace cotan::aot
