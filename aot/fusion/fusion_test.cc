// SPDX-License-Identifier: Apache-2.0

#include "aot/fusion/fusion.h"

#include <algorithm>

#include "aot/ir/text.h"
#include "aot/ir/verifier.h"
#include "aot/lowering/lower.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

// Lowers aten text and fuses it.
Graph Fused(absl::string_view text) {
  absl::StatusOr<Graph> parsed = ParseGraph(text);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  absl::StatusOr<Graph> graph = LowerToPrims(*parsed);
  EXPECT_TRUE(graph.ok()) << graph.status();
  const absl::StatusOr<bool> changed = FuseExpressions(*graph);
  EXPECT_TRUE(changed.ok()) << changed.status();
  EXPECT_TRUE(VerifyGraph(*graph).ok()) << VerifyGraph(*graph) << PrintGraph(*graph);
  return *std::move(graph);
}

// Returns the ops of all nodes except views, in order, with the reduce dims of expressions.
std::vector<std::string> Work(const Graph& graph) {
  std::vector<std::string> work;
  for (const Node& node : graph.nodes()) {
    if (node.op == "prim.view" || node.op == "prim.permute" || node.op == "prim.slice") continue;
    std::string text = node.op;
    if (node.expr != nullptr) {
      for (const uint32_t dim : node.expr->reduce_dims()) text += " " + std::to_string(dim);
    }
    work.push_back(text);
  }
  return work;
}

using Ops = std::vector<std::string>;

TEST(FusionTest, SoftmaxIsOneProgram) {
  EXPECT_EQ(PrintGraph(Fused(R"(graph @g {
  %0: f32[4,8] = user_input 0 "x"
  %1: f32[4,8] = aten._softmax.default(%0, -1, false)
  user_output 0 "y" = %1
})")),
            R"(graph @g {
  %0: f32[4,8] = user_input 0 "x"
  %1: f32[4,8] = cotan.expr(%0) from "aten._softmax.default" {
    domain [4,8] reduce [1]
    0: f32 = input 0
    1: f32 = reduce_max 0
    2: f32 = sub 0 1
    3: f32 = exp 2
    4: f32 = reduce_sum 3
    5: f32 = div 3 4
    store 5
  }
  user_output 0 "y" = %1
}
)");
}

TEST(FusionTest, ResidualAddAndLayerNormAreOneProgramThatKeepsTheSum) {
  const Graph graph = Fused(R"(graph @g {
  %0: f32[8,64,128] = user_input 0 "x"
  %1: f32[8,64,128] = user_input 1 "a"
  %2: f32[128] = parameter 0 "w"
  %3: f32[128] = parameter 1 "b"
  %4: f32[8,64,128] = aten.add.Tensor(%0, %1, 1)
  %5: f32[8,64,128], %6: f32[8,64,1], %7: f32[8,64,1] = aten.native_layer_norm.default(%4, [128], %2, %3, 1e-05)
  user_output 0 "sum" = %4
  user_output 1 "y" = %5
})");
  EXPECT_EQ(Work(graph), Ops{"cotan.expr 2"}) << PrintGraph(graph);
  EXPECT_EQ(graph.nodes().back().outputs.size(), 2u);
}

TEST(FusionTest, BatchNormAndReluAreOneProgramWithTheRunningStatistics) {
  const Graph graph = Fused(R"(graph @g {
  %0: f32[32,16,28,28] = user_input 0 "x"
  %1: f32[16] = parameter 0 "w"
  %2: f32[16] = parameter 1 "b"
  %3: f32[16] = buffer 0 "rm"
  %4: f32[16] = buffer 1 "rv"
  %5: f32[32,16,28,28], %6: f32[16], %7: f32[16], %8: f32[16], %9: f32[16] = aten._native_batch_norm_legit_functional.default(%0, %1, %2, %3, %4, true, 0.1, 1e-05)
  %10: f32[32,16,28,28] = aten.relu.default(%5)
  mutated_input 3 "rm" = %8
  mutated_input 4 "rv" = %9
  user_output 0 "y" = %10
})");
  EXPECT_EQ(Work(graph), Ops{"cotan.expr 0 2 3"}) << PrintGraph(graph);
  const serialization::Expr& expr = *std::find_if(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
                                       return node.expr != nullptr;
                                     })->expr;
  const auto reductions =
      std::count_if(expr.instructions().begin(), expr.instructions().end(),
                    [](const auto& instruction) { return instruction.fn() >= serialization::FN_REDUCE_SUM; });
  EXPECT_EQ(reductions, 2);
  EXPECT_EQ(expr.outputs_size(), 3);
}

TEST(FusionTest, LayerNormBackwardRecomputesInsteadOfStoring) {
  const Graph graph = Fused(R"(graph @g {
  %0: f32[64,128] = user_input 0 "g"
  %1: f32[64,128] = user_input 1 "x"
  %2: f32[64,1] = user_input 2 "mean"
  %3: f32[64,1] = user_input 3 "rstd"
  %4: f32[128] = parameter 0 "w"
  %5: f32[64,128], %6: f32[128], %7: f32[128] = aten.native_layer_norm_backward.default(%0, %1, [128], %2, %3, %4, none, bools[true, true, true])
  user_output 0 "dx" = %5
  user_output 1 "dw" = %6
  user_output 2 "db" = %7
})");
  // Rows for dx; columns for dw and db together, each from g and x alone.
  EXPECT_EQ(Work(graph), (Ops{"cotan.expr 1", "cotan.expr 0"})) << PrintGraph(graph);
  for (const Node& node : graph.nodes()) {
    for (const ValueId id : node.outputs) {
      const bool stored_for_another = node.expr != nullptr && graph.value(id).type.sizes == (SymIntVector{64, 128});
      if (stored_for_another) {
        EXPECT_EQ(id, graph.outputs()[0].value);
      }
    }
  }
}

TEST(FusionTest, GradientBehindAReshapeMeetsItsBiasGradient) {
  const Graph graph = Fused(R"(graph @g {
  %0: f32[8,64,512] = user_input 0 "g"
  %1: f32[8,64,512] = user_input 1 "x"
  %2: f32[8,64,512] = aten.gelu_backward.default(%0, %1, "none")
  %3: f32[512,512] = aten.view.default(%2, [512, 512])
  %4: f32[1,512] = aten.sum.dim_IntList(%3, [0], true, none)
  user_output 0 "dx" = %3
  user_output 1 "db" = %4
})");
  EXPECT_EQ(Work(graph).size(), 1u) << PrintGraph(graph);
}

TEST(FusionTest, ADropoutMaskIsDrawnOnceAndStoredAsBool) {
  const Graph graph = Fused(R"(graph @g {
  %0: f32[64,128] = user_input 0 "x"
  %1: f32[64,128] = user_input 1 "w"
  %2: i64[2] = rng_state 0 "rng"
  %3: f32[64,128] = cotan.random_uniform.default(%2, [64, 128], 0)
  %4: bool[64,128] = aten.ge.Scalar(%3, 0.1)
  %5: f32[64,128] = aten._to_copy.default(%4)
  %6: f32[64,128] = aten.div.Tensor(%5, 0.9)
  %7: f32[64,128] = aten.mul.Tensor(%0, %6)
  %8: f32[128,64] = aten.t.default(%1)
  %9: f32[64,64] = aten.mm.default(%7, %8)
  %10: f32[64,128] = aten.mm.default(%9, %1)
  %11: f32[64,128] = aten.mul.Tensor(%10, %6)
  user_output 0 "y" = %11
})");
  EXPECT_EQ(Work(graph), (Ops{"cotan.expr", "prim.matmul", "prim.matmul", "cotan.expr"})) << PrintGraph(graph);
  int draws = 0;
  for (const Node& node : graph.nodes()) {
    if (node.expr == nullptr) continue;
    for (const auto& instruction : node.expr->instructions())
      draws += instruction.fn() == serialization::FN_RANDOM_UNIFORM;
  }
  EXPECT_EQ(draws, 1);
  EXPECT_EQ(graph.value(graph.nodes().front().outputs[1]).type.dtype, DType::kBool) << PrintGraph(graph);
}

TEST(FusionTest, AMeanOfAFillCountsAllItsElements) {
  EXPECT_EQ(PrintGraph(Fused(R"(graph @g {
  %0: f32[3,3] = user_input 0 "x"
  %1: f32[3,3] = aten.fill.Scalar(%0, 1)
  %2: f32[] = aten.mean.default(%1, none)
  user_output 0 "y" = %2
})")),
            R"(graph @g {
  %0: f32[3,3] = user_input 0 "x"
  %1: f32[1,1] = cotan.expr() from "aten.mean.default" {
    domain [3,3] reduce [0,1]
    0: f32 = constant 1.0
    1: f32 = reduce_sum 0
    2: f32 = constant 9.0
    3: f32 = div 1 2
    store 3
  }
  %2: f32[] = prim.view(%1, []) from "aten.mean.default"
  user_output 0 "y" = %2
}
)");
}

TEST(FusionTest, NothingMergesAcrossAKernelBetween) {
  const Graph graph = Fused(R"(graph @g {
  %0: f32[128,128] = user_input 0 "x"
  %1: f32[128,128] = aten.exp.default(%0)
  %2: f32[128,128] = aten.mm.default(%1, %1)
  %3: f32[128,128] = aten.add.Tensor(%2, %1, 1)
  user_output 0 "y" = %3
})");
  EXPECT_EQ(Work(graph), (Ops{"cotan.expr", "prim.matmul", "cotan.expr"})) << PrintGraph(graph);
}

TEST(FusionTest, ProgramsStayBelowTheLimit) {
  std::string text = "graph @g {\n  %0: f32[128,128] = user_input 0 \"x\"\n";
  for (int i = 1; i <= 300; ++i) text += absl::StrCat("  %", i, ": f32[128,128] = aten.tanh.default(%", i - 1, ")\n");
  text += "  user_output 0 \"y\" = %300\n}";
  const Graph graph = Fused(text);
  EXPECT_GE(graph.nodes().size(), 4u);
  for (const Node& node : graph.nodes()) EXPECT_LE(node.expr->instructions_size(), kMaxFusedInstructions);
}

TEST(FusionTest, AnUpdateWaitsForTheReadersOfWhatItUpdates) {
  const Graph graph = Fused(R"(graph @g {
  %0: f32[128,128] = parameter 0 "w"
  %1: f32[128,128] = user_input 0 "x"
  %2: f32[128,128] = aten.mm.default(%1, %1)
  %3: f32[128,128] = aten.sub.Tensor(%0, %2, 0.5)
  %4: f32[128,128] = aten.mm.default(%1, %0)
  user_output 0 "y" = %4
  state_update 0 "w" = %3
})");
  EXPECT_EQ(Work(graph), (Ops{"prim.matmul", "prim.matmul", "cotan.expr"})) << PrintGraph(graph);
}

}  // namespace
}  // namespace cotan::aot
