// SPDX-License-Identifier: Apache-2.0

#include "aot/lowering/lower.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "aot/ir/text.h"
#include "aot/ir/verifier.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

std::string Lowered(absl::string_view text) {
  const absl::StatusOr<Graph> graph = ParseGraph(text);
  if (!graph.ok()) return std::string(graph.status().message());
  const absl::StatusOr<Graph> lowered = LowerToPrims(*graph);
  if (!lowered.ok()) return std::string(lowered.status().message());
  if (const absl::Status status = VerifyGraph(*lowered); !status.ok()) return std::string(status.message());
  return PrintGraph(*lowered);
}

TEST(LowerToPrimsTest, ALinearLayerBecomesOneMatmulWithBias) {
  EXPECT_EQ(Lowered(R"(graph @g {
  %0: f32[10,784] = parameter 0 "weight"
  %1: f32[10] = parameter 1 "bias"
  %2: f32[32,784] = user_input 0 "x"
  %3: f32[784,10] = aten.t.default(%0)
  %4: f32[32,10] = aten.addmm.default(%1, %2, %3, 1, 1)
  user_output 0 "y" = %4
})"),
            R"(graph @g {
  %0: f32[10,784] = parameter 0 "weight"
  %1: f32[10] = parameter 1 "bias"
  %2: f32[32,784] = user_input 0 "x"
  %3: f32[784,10] = prim.permute(%0, [1, 0]) from "aten.t.default"
  %4: f32[32,10] = prim.matmul(%2, %3, %1) from "aten.addmm.default"
  user_output 0 "y" = %4
}
)");
}

TEST(LowerToPrimsTest, ALayerAfterAnEmbeddingOfFewRowsIsComputedForTheRows) {
  EXPECT_EQ(Lowered(R"(graph @g {
  %0: f32[8,32] = parameter 0 "table"
  %1: f32[32,10] = parameter 1 "weight"
  %2: i64[16] = user_input 0 "x"
  %3: f32[16,32] = aten.embedding.default(%0, %2, -1, false, false)
  %4: f32[16,10] = aten.mm.default(%3, %1)
  user_output 0 "y" = %4
})"),
            R"(graph @g {
  %0: f32[8,32] = parameter 0 "table"
  %1: f32[32,10] = parameter 1 "weight"
  %2: i64[16] = user_input 0 "x"
  %3: i64[16] = prim.checked_index(%2, 8, false, none) from "aten.embedding.default"
  %4: f32[8,10] = prim.matmul(%0, %1, none) from "aten.mm.default"
  %5: f32[16,10] = prim.gather(%4, %3, 0) from "aten.mm.default"
  user_output 0 "y" = %5
}
)");
}

// ATen computes them in f32, too.
TEST(LowerToPrimsTest, ActivationsAndSoftmaxOfHalvesAreRoundedOnce) {
  for (const absl::string_view op :
       {"gelu.default(%0, \"none\")", "gelu.default(%0, \"tanh\")", "silu.default(%0)", "mish.default(%0)",
        "_softmax.default(%0, 1, false)", "_log_softmax.default(%0, 1, false)"}) {
    const std::string text = Lowered(absl::StrCat(
        "graph @g {\n%0: bf16[4,8] = user_input 0 \"x\"\n%1: bf16[4,8] = aten.", op, "\nuser_output 0 \"y\" = %1\n}"));
    const std::vector<absl::string_view> halves = absl::StrSplit(text, ": bf16 = ");
    ASSERT_EQ(halves.size(), 3) << text;
    EXPECT_TRUE(absl::StartsWith(halves[1], "input 0")) << text;
    EXPECT_TRUE(absl::StartsWith(halves[2], "cast")) << text;
  }
}

// An 8-bit float is converted, copied, joined and viewed, but nothing is computed in it.
TEST(LowerToPrimsTest, EightBitFloatsAreOnlyMovedAndConverted) {
  const std::string moved = Lowered(R"(graph @g {
  %0: f32[4,8] = user_input 0 "x"
  %1: f8e4m3fn[4,8] = aten._to_copy.default(%0, none, none, none, none, false, none)
  %2: f8e4m3fn[8,4] = aten.t.default(%1)
  %3: f8e4m3fn[4,16] = aten.cat.default({%1, %1}, 1)
  %4: bf16[8,4] = aten._to_copy.default(%2, none, none, none, none, false, none)
  user_output 0 "y" = %3
  user_output 1 "z" = %4
})");
  EXPECT_NE(moved.find("f8e4m3fn[4,16] = prim.concat"), std::string::npos) << moved;
  const std::string sum = Lowered(R"(graph @g {
  %0: f8e5m2[4] = user_input 0 "x"
  %1: f8e5m2[4] = aten.add.Tensor(%0, %0, 1)
  user_output 0 "y" = %1
})");
  EXPECT_NE(sum.find("aten.add.Tensor computes in f8e5m2, which is for storage only"), std::string::npos) << sum;
  const std::string product = Lowered(R"(graph @g {
  %0: f8e4m3fn[4,4] = user_input 0 "x"
  %1: f8e4m3fn[4,4] = aten.mm.default(%0, %0)
  user_output 0 "y" = %1
})");
  EXPECT_NE(product.find("aten.mm.default computes in f8e4m3fn"), std::string::npos) << product;
}

TEST(LowerToPrimsTest, SoftmaxBecomesExpressionsOverRows) {
  EXPECT_EQ(Lowered(R"(graph @g {
  %0: f32[4,8] = user_input 0 "x"
  %1: f32[4,8] = aten._softmax.default(%0, -1, false)
  user_output 0 "y" = %1
})"),
            R"(graph @g {
  %0: f32[4,8] = user_input 0 "x"
  %1: f32[4,1] = cotan.expr(%0) from "aten._softmax.default" {
    domain [4,8] reduce [1]
    0: f32 = input 0
    1: f32 = reduce_max 0
    store 1
  }
  %2: f32[4,8] = cotan.expr(%0, %1) from "aten._softmax.default" {
    domain [4,8]
    0: f32 = input 0
    1: f32 = input 1
    2: f32 = sub 0 1
    store 2
  }
  %3: f32[4,8] = cotan.expr(%2) from "aten._softmax.default" {
    domain [4,8]
    0: f32 = input 0
    1: f32 = exp 0
    store 1
  }
  %4: f32[4,1] = cotan.expr(%3) from "aten._softmax.default" {
    domain [4,8] reduce [1]
    0: f32 = input 0
    1: f32 = reduce_sum 0
    store 1
  }
  %5: f32[4,8] = cotan.expr(%3, %4) from "aten._softmax.default" {
    domain [4,8]
    0: f32 = input 0
    1: f32 = input 1
    2: f32 = div 0 1
    store 2
  }
  user_output 0 "y" = %5
}
)");
}

TEST(LowerToPrimsTest, TheFirstElementsInOrderAreASortOfADynamicDimension) {
  EXPECT_EQ(Lowered(R"(graph @g {
  %0: f32[s0,8] = user_input 0 "x"
  %1: f32[3,8], %2: i64[3,8] = aten.topk.default(%0, 3, 0, true, true)
  user_output 0 "y" = %1
})"),
            R"(graph @g {
  %0: f32[s0,8] = user_input 0 "x"
  %1: f32[3,8], %2: i64[3,8] = prim.sort(%0, 0, true) from "aten.topk.default"
  user_output 0 "y" = %1
}
)");
}

TEST(LowerToPrimsTest, MixedDTypesAreCastToTheResult) {
  EXPECT_EQ(Lowered(R"(graph @g {
  %0: i64[4] = user_input 0 "i"
  %1: f32[2,4] = user_input 1 "x"
  %2: f32[2,4] = aten.add.Tensor(%0, %1, 2)
  user_output 0 "y" = %2
})"),
            R"(graph @g {
  %0: i64[4] = user_input 0 "i"
  %1: f32[2,4] = user_input 1 "x"
  %2: f32[2,4] = cotan.expr(%1) from "aten.add.Tensor" {
    domain [2,4]
    0: f32 = input 0
    1: f32 = constant 2.0
    2: f32 = mul 0 1
    store 2
  }
  %3: f32[4] = cotan.expr(%0) from "aten.add.Tensor" {
    domain [4]
    0: i64 = input 0
    1: f32 = cast 0
    store 1
  }
  %4: f32[2,4] = cotan.expr(%3, %2) from "aten.add.Tensor" {
    domain [2,4]
    0: f32 = input 0
    1: f32 = input 1
    2: f32 = add 0 1
    store 2
  }
  user_output 0 "y" = %4
}
)");
}

TEST(LowerToPrimsTest, AllUnsupportedOpsAreNamedAtOnce) {
  const std::string message = Lowered(R"(graph @g {
  %0: f32[4] = user_input 0 "x"
  %1: f32[4] = aten.unheard_of.default(%0)
  %2: f32[4] = aten.also_unheard_of.out(%1)
  %3: f32[4] = aten.unheard_of.default(%2)
  user_output 0 "y" = %3
})");
  EXPECT_NE(message.find("aten.also_unheard_of.out, aten.unheard_of.default"), std::string::npos) << message;
}

// Smaller ones are unrolled.
TEST(LowerToPrimsTest, LargeMatricesAreDecomposedByAnOpOfTheRuntime) {
  const auto cholesky = [](const std::string& rows) {
    return Lowered("graph @g {\n  %0: f32[" + rows + "," + rows + "] = user_input 0 \"x\"\n  %1: f32[" + rows + "," +
                   rows +
                   "], %2: i32[] = aten.linalg_cholesky_ex.default(%0, true, false)\n  user_output 0 \"y\" = %1\n}");
  };
  // Function CHOLESKY, upper.
  EXPECT_THAT(cholesky("33"), ::testing::HasSubstr("%1: f32[33,33], %2: i32[] = prim.linear_algebra(%0, none, none, 6, "
                                                   "true, false, false, false)"));
  EXPECT_THAT(cholesky("32"), ::testing::Not(::testing::HasSubstr("linear_algebra")));
}

TEST(LowerToPrimsTest, AResultOfAnotherTypeThanTracedIsAnError) {
  const std::string message = Lowered(R"(graph @g {
  %0: f32[4] = user_input 0 "x"
  %1: f32[5] = aten.exp.default(%0)
  user_output 0 "y" = %1
})");
  EXPECT_NE(message.find("the tracer recorded f32[5]"), std::string::npos) << message;
}

TEST(AppendRngAdvanceTest, TheOffsetGrowsAndTheSeedStays) {
  Graph graph = *ParseGraph("graph @g {\n  %0: i64[2] = rng_state 0 \"rng\"\n}\n");
  ASSERT_TRUE(AppendRngAdvance(graph, SymInt(12)).ok());
  ASSERT_TRUE(VerifyGraph(graph).ok());
  EXPECT_EQ(graph.outputs()[0].name, "rng");
  EXPECT_EQ(graph.outputs()[0].kind, OutputKind::kStateUpdate);
  Graph without = *ParseGraph("graph @g {\n}\n");
  EXPECT_EQ(AppendRngAdvance(without, SymInt(12)).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cotan::aot
