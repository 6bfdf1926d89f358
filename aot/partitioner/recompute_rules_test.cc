// SPDX-License-Identifier: Apache-2.0

#include "aot/partitioner/recompute_rules.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "aot/ir/text.h"
#include "aot/partitioner/test_cuts.h"

namespace cotan::aot {
namespace {

using Texts = std::vector<std::string>;

// Returns the number of elements that forward and backward load and store if each is one kernel. A bool counts as a
// quarter.
double ElementsMoved(const Partitioned& cut) {
  int64_t bytes = 0;
  for (const Graph* graph : {&cut.forward, &cut.backward}) {
    std::vector<ValueId> moved;
    const auto add = [&](ValueId id) {
      if (id == kNoValue || std::find(moved.begin(), moved.end(), id) != moved.end()) return;
      moved.push_back(id);
      bytes += EstimatedBytes(graph->value(id).type);
    };
    for (const GraphInput& input : graph->inputs()) add(input.value);
    for (const GraphOutput& output : graph->outputs()) add(output.value);
  }
  return static_cast<double>(bytes) / 4;
}

constexpr absl::string_view kThreeCosines = R"(graph @joint {
  %0: f32[10] = user_input 0 "x"
  %1: f32[10] = tangent 0 "t"
  %2: f32[10] = aten.cos.default(%0)
  %3: f32[10] = aten.cos.default(%2)
  %4: f32[10] = aten.cos.default(%3)
  %5: f32[10] = aten.sin.default(%3)
  %6: f32[10] = aten.neg.default(%5)
  %7: f32[10] = aten.mul.Tensor(%1, %6)
  %8: f32[10] = aten.sin.default(%2)
  %9: f32[10] = aten.neg.default(%8)
  %10: f32[10] = aten.mul.Tensor(%7, %9)
  %11: f32[10] = aten.sin.default(%0)
  %12: f32[10] = aten.neg.default(%11)
  %13: f32[10] = aten.mul.Tensor(%10, %12)
  user_output 0 "y" = %4
  gradient 0 "x" = %13
})";

TEST(RecomputeRulesTest, AChainOfCosinesSavesItsArgument) {
  const Partitioned cut = Cut(kThreeCosines);
  EXPECT_EQ(cut.forward.outputs().size(), 2u);
  EXPECT_EQ(cut.backward.inputs().size(), 2u);
  EXPECT_EQ(ElementsMoved(cut), 50);
  EXPECT_EQ(SavedTypes(Cut(kThreeCosines, {.partitioner = Partitioner::kDefault}).forward).size(), 3u);
}

TEST(RecomputeRulesTest, CosinesOfASumSaveTheSumInsteadOfItsTerms) {
  const Partitioned cut = Cut(R"(graph @joint {
  %0: f32[10] = user_input 0 "a"
  %1: f32[10] = user_input 1 "b"
  %2: f32[10] = user_input 2 "c"
  %3: f32[10] = user_input 3 "d"
  %4: f32[10] = tangent 0 "t"
  %5: f32[10] = aten.add.Tensor(%0, %1, 1)
  %6: f32[10] = aten.add.Tensor(%5, %2, 1)
  %7: f32[10] = aten.add.Tensor(%6, %3, 1)
  %8: f32[10] = aten.cos.default(%7)
  %9: f32[10] = aten.cos.default(%8)
  %10: f32[10] = aten.sin.default(%8)
  %11: f32[10] = aten.mul.Tensor(%4, %10)
  %12: f32[10] = aten.sin.default(%7)
  %13: f32[10] = aten.mul.Tensor(%11, %12)
  user_output 0 "y" = %9
  gradient 0 "a" = %13
  gradient 1 "b" = %13
  gradient 2 "c" = %13
  gradient 3 "d" = %13
})");
  EXPECT_EQ(cut.forward.outputs().size(), 2u);
  EXPECT_EQ(cut.backward.inputs().size(), 2u);
  EXPECT_EQ(ElementsMoved(cut), 90);
}

TEST(RecomputeRulesTest, AMaskIsSavedAsBools) {
  const Partitioned cut = Cut(R"(graph @joint {
  %0: f32[100] = user_input 0 "x"
  %1: f32[100] = tangent 0 "t"
  %2: bool[100] = aten.lt.Scalar(%0, 0)
  %3: f32[100] = aten._to_copy.default(%2)
  %4: f32[100] = aten.mul.Tensor(%3, %0)
  %5: f32[100] = aten.mul.Tensor(%1, %3)
  user_output 0 "y" = %4
  gradient 0 "x" = %5
})");
  EXPECT_EQ(SavedTypes(cut.forward), Texts{"bool[100]"});
  EXPECT_EQ(ElementsMoved(cut), 450);
}

TEST(RecomputeRulesTest, AnOuterProductIsComputedAgainFromItsFactors) {
  const Partitioned cut = Cut(R"(graph @joint {
  %0: f32[20,1] = user_input 0 "a"
  %1: f32[1,20] = user_input 1 "b"
  %2: f32[20] = tangent 0 "t"
  %3: f32[20,20] = aten.mul.Tensor(%0, %1)
  %4: f32[20,20] = aten.cos.default(%3)
  %5: f32[20] = aten.sum.dim_IntList(%4, [1], false, none)
  %6: f32[20,20] = aten.sin.default(%3)
  %7: f32[20,1] = aten.view.default(%2, [20, 1])
  %8: f32[20,20] = aten.mul.Tensor(%6, %7)
  %9: f32[20,20] = aten.mul.Tensor(%8, %1)
  %10: f32[20,1] = aten.sum.dim_IntList(%9, [1], true, none)
  %11: f32[20,20] = aten.mul.Tensor(%8, %0)
  %12: f32[1,20] = aten.sum.dim_IntList(%11, [0], true, none)
  user_output 0 "y" = %5
  gradient 0 "a" = %10
  gradient 1 "b" = %12
})");
  EXPECT_EQ(SavedTypes(cut.forward), (Texts{"f32[20,1]", "f32[1,20]"}));
  // PyTorch's 220 are those of two kernels in the backward, each of which reads factors and tangent.
  EXPECT_EQ(ElementsMoved(cut), 160);
}

TEST(RecomputeRulesTest, AHyperbolicTangentIsComputedAgain) {
  const Partitioned cut = Cut(R"(graph @joint {
  %0: f32[10] = user_input 0 "a"
  %1: f32[10] = user_input 1 "b"
  %2: f32[20] = tangent 0 "t"
  %3: f32[10] = aten.tanh.default(%0)
  %4: f32[20] = aten.cat.default({%3, %1}, 0)
  %5: f32[10] = aten.slice.Tensor(%2, 0, 0, 10, 1)
  %6: f32[10] = aten.slice.Tensor(%2, 0, 10, 20, 1)
  %7: f32[10] = aten.tanh_backward.default(%5, %3)
  user_output 0 "y" = %4
  gradient 0 "a" = %7
  gradient 1 "b" = %6
})");
  EXPECT_EQ(SavedTypes(cut.forward), Texts{"f32[10]"});
  // 70 are moved: half of the tangent is the gradient of b, which need not be read and written.
  EXPECT_EQ(ElementsMoved(cut), 90);
}

TEST(RecomputeRulesTest, ViewsAreRepeatedFromTheirBase) {
  const Partitioned cut = Cut(R"(graph @joint {
  %0: f32[4,4] = user_input 0 "x"
  %1: f32[2,4] = tangent 0 "t"
  %2: f32[2,4] = aten.slice.Tensor(%0, 0, 0, 2, 1)
  %3: f32[2,4] = aten.slice.Tensor(%0, 0, 2, 4, 1)
  %4: f32[2,4] = aten.sin.default(%2)
  %5: f32[2,4] = aten.cos.default(%3)
  %6: f32[2,4] = aten.add.Tensor(%4, %5, 1)
  %7: f32[2,4] = aten.cos.default(%2)
  %8: f32[2,4] = aten.mul.Tensor(%1, %7)
  %9: f32[2,4] = aten.sin.default(%3)
  %10: f32[2,4] = aten.mul.Tensor(%1, %9)
  %11: f32[4,4] = aten.cat.default({%8, %10}, 0)
  user_output 0 "y" = %6
  gradient 0 "x" = %11
})");
  EXPECT_EQ(InputNames(cut.backward), (Texts{"saved saved.0", "tangent t"}));
  EXPECT_EQ(SavedTypes(cut.forward), Texts{"f32[4,4]"});
  EXPECT_EQ(CountOps(cut.backward, "prim.slice"), 2);
}

TEST(RecomputeRulesTest, ASumSavesNothing) {
  const Partitioned cut = Cut(R"(graph @joint {
  %0: f32[s0,10] = user_input 0 "x"
  %1: f32[s0] = tangent 0 "t"
  %2: f32[s0] = aten.sum.dim_IntList(%0, [1], false, none)
  %3: f32[s0,1] = aten.view.default(%1, [s0, 1])
  %4: f32[s0,10] = aten.expand.default(%3, [s0, 10], false)
  user_output 0 "y" = %2
  gradient 0 "x" = %4
})");
  EXPECT_EQ(SavedTypes(cut.forward), Texts{});
  EXPECT_EQ(InputNames(cut.backward), Texts{"tangent t"});
}

// Returns a joint graph that multiplies the rows of x by their sums.
std::string RowsTimesSums(int rows, int columns) {
  return absl::StrReplaceAll(R"(graph @joint {
  %0: f32[M,N] = user_input 0 "x"
  %1: f32[M,N] = tangent 0 "t"
  %2: f32[M,1] = aten.sum.dim_IntList(%0, [1], true, none)
  %3: f32[M,N] = aten.mul.Tensor(%0, %2)
  %4: f32[M,N] = aten.mul.Tensor(%1, %2)
  %5: f32[M,N] = aten.mul.Tensor(%1, %0)
  %6: f32[M,1] = aten.sum.dim_IntList(%5, [1], true, none)
  %7: f32[M,N] = aten.add.Tensor(%4, %6, 1)
  user_output 0 "y" = %3
  gradient 0 "x" = %7
})",
                             {{"M", absl::StrCat(rows)}, {"N", absl::StrCat(columns)}});
}

TEST(RecomputeRulesTest, SumsOfFewTermsAreComputedAgain) {
  EXPECT_EQ(SavedTypes(Cut(RowsTimesSums(32, 9)).forward), (Texts{"f32[32,9]", "f32[32,1]"}));
  EXPECT_EQ(SavedTypes(Cut(RowsTimesSums(32, 8)).forward), Texts{"f32[32,8]"});
}

TEST(RecomputeRulesTest, FewSumsAreSaved) {
  EXPECT_EQ(SavedTypes(Cut(RowsTimesSums(31, 8)).forward), (Texts{"f32[31,8]", "f32[31,1]"}));
}

// The backward passes the cosine to a matrix product and would have to store it.
TEST(RecomputeRulesTest, WhatAKernelOfTheBackwardReadsIsSaved) {
  const Partitioned cut = Cut(R"(graph @joint {
  %0: f32[64,64] = parameter 0 "x"
  %1: f32[64,64] = tangent 0 "t"
  %2: f32[64,64] = aten.cos.default(%0)
  %3: f32[64,64] = aten.mm.default(%2, %2)
  %4: f32[64,64] = aten.t.default(%2)
  %5: f32[64,64] = aten.mm.default(%4, %1)
  user_output 0 "y" = %3
  gradient 0 "x" = %5
})");
  EXPECT_EQ(SavedTypes(cut.forward), Texts{"f32[64,64]"});
}

TEST(RecomputeRulesTest, LongChainsAreSavedInBetween) {
  // x -> sin -> sin -> ...; the backward reads each argument.
  const auto saved = [](int length) {
    std::string text = "graph @joint {\n  %0: f32[100] = user_input 0 \"x\"\n  %1: f32[100] = tangent 0 \"t\"\n";
    int next = 2;
    std::vector<int> chain = {0};
    for (int i = 0; i < length; ++i) {
      absl::StrAppend(&text, "  %", next, ": f32[100] = aten.sin.default(%", chain.back(), ")\n");
      chain.push_back(next++);
    }
    int gradient = 1;
    for (int i = length - 1; i >= 0; --i) {
      absl::StrAppend(&text, "  %", next, ": f32[100] = aten.cos.default(%", chain[static_cast<size_t>(i)], ")\n");
      absl::StrAppend(&text, "  %", next + 1, ": f32[100] = aten.mul.Tensor(%", gradient, ", %", next, ")\n");
      gradient = next + 1;
      next += 2;
    }
    absl::StrAppend(&text, "  user_output 0 \"y\" = %", chain.back(), "\n  gradient 0 \"x\" = %", gradient, "\n}\n");
    return SavedTypes(Cut(text).forward).size();
  };
  EXPECT_EQ(saved(kMaxRecomputedChain), 1u);
  EXPECT_EQ(saved(2 * kMaxRecomputedChain + 10), 3u);
}

TEST(RecomputeRulesTest, RepeatedNodesAreMarkedAndComeBeforeTheirFirstReader) {
  const Partitioned cut = Cut(kThreeCosines);
  std::vector<std::string> marks;
  for (const Node& node : cut.backward.nodes()) marks.push_back(node.source);
  // The inner two cosines are repeated, before the sines of them; sines and products run only here.
  ASSERT_GE(marks.size(), 9u);
  EXPECT_EQ(marks[0], "aten.cos.default (recomputed)");
  EXPECT_EQ(marks[1], "aten.cos.default (recomputed)");
  EXPECT_EQ(std::count_if(marks.begin(), marks.end(),
                          [](const std::string& mark) { return absl::StrContains(mark, "(recomputed)"); }),
            2);
}

TEST(RecomputeRulesTest, EffectsAndTheirResultsAreNeverRepeated) {
  const Partitioned cut = Cut(R"(graph @joint {
  %0: f32[8] = parameter 0 "w"
  %1: bool[0] = token 0 "token"
  %2: f32[8] = tangent 0 "t"
  %3: f32[8] = aten.sin.default(%0)
  %4: bool[0] = cotan.effect.default(%1, %3, "print", "w", "w")
  %5: f32[8] = aten.cos.default(%0)
  %6: f32[8] = aten.mul.Tensor(%2, %5)
  token_output 0 "token" = %4
  user_output 0 "y" = %3
  gradient 0 "w" = %6
})",
                              {.activation_memory_budget = 0});
  EXPECT_EQ(CountOps(cut.forward, "prim.effect"), 1);
  EXPECT_EQ(CountOps(cut.backward, "prim.effect"), 0);
}

// Under every budget, the value at the time of the forward.
TEST(RecomputeRulesTest, ABufferThatIsWrittenLaterIsSaved) {
  for (const double budget : {1.0, 0.5, 0.0}) {
    const Partitioned cut = Cut(R"(graph @joint {
  %0: f32[4] = buffer 0 "b"
  %1: f32[4] = parameter 0 "w"
  %2: f32[4] = tangent 0 "t"
  %3: f32[4] = aten.sin.default(%0)
  %4: f32[4] = aten.mul.Tensor(%3, %1)
  %5: f32[4] = aten.add.Tensor(%0, 1, 1)
  %6: f32[4] = aten.mul.Tensor(%2, %3)
  mutated_input 0 "b" = %5
  user_output 0 "y" = %4
  gradient 1 "w" = %6
})",
                                {.activation_memory_budget = budget});
    EXPECT_EQ(InputNames(cut.backward), (Texts{"saved saved.0", "tangent t", "parameter w"})) << budget;
  }
}

}  // namespace
}  // namespace cotan::aot
