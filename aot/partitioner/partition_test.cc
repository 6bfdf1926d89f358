// SPDX-License-Identifier: Apache-2.0

#include "aot/partitioner/partition.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "aot/ir/text.h"
#include "aot/ir/verifier.h"
#include "aot/partitioner/test_cuts.h"

namespace cotan::aot {
namespace {

using Texts = std::vector<std::string>;

TEST(PartitionTest, ALinearLayerSavesItsInputAndReadsItsWeight) {
  const Partitioned cut = Cut(R"(graph @joint {
  %0: f32[4,3] = parameter 0 "w"
  %1: f32[8,3] = user_input 0 "x"
  %2: f32[8,4] = tangent 0 "t"
  %3: f32[3,4] = aten.t.default(%0)
  %4: f32[8,4] = aten.mm.default(%1, %3)
  %5: f32[4,3] = aten.t.default(%3)
  %6: f32[8,3] = aten.mm.default(%2, %5)
  %7: f32[4,8] = aten.t.default(%2)
  %8: f32[4,3] = aten.mm.default(%7, %1)
  user_output 0 "y" = %4
  gradient 0 "w" = %8
  gradient 1 "x" = %6
})");
  EXPECT_EQ(SavedTypes(cut.forward), Texts{"f32[8,3]"});
  EXPECT_EQ(InputNames(cut.backward), (Texts{"saved saved.0", "tangent t", "parameter w"}));
  EXPECT_EQ(cut.backward.outputs().size(), 2u);
  EXPECT_EQ(cut.forward.inputs().size(), 2u);
}

TEST(PartitionTest, AMutatedBufferIsSavedNotRead) {
  const Partitioned cut = Cut(R"(graph @joint {
  %0: f32[4] = buffer 0 "b"
  %1: f32[4] = user_input 0 "x"
  %2: f32[4] = tangent 0 "t"
  %3: f32[4] = aten.mul.Tensor(%0, %1)
  %4: f32[4] = aten.add.Tensor(%0, 1, 1)
  %5: f32[4] = aten.mul.Tensor(%2, %0)
  mutated_input 0 "b" = %4
  user_output 0 "y" = %3
  gradient 1 "x" = %5
})");
  EXPECT_EQ(InputNames(cut.backward), (Texts{"saved saved.0", "tangent t"}));
}

TEST(PartitionTest, DropoutSavesTheGeneratorInsteadOfTheMask) {
  const Partitioned cut = Cut(R"(graph @joint {
  %0: f32[64,128] = user_input 0 "x"
  %1: i64[2] = rng_state 0 "rng"
  %2: f32[64,128] = tangent 0 "t"
  %3: f32[64,128] = cotan.random_uniform.default(%1, [64, 128], 0)
  %4: bool[64,128] = aten.ge.Scalar(%3, 0.1)
  %5: f32[64,128] = aten._to_copy.default(%4)
  %6: f32[64,128] = aten.div.Tensor(%5, 0.9)
  %7: f32[64,128] = aten.mul.Tensor(%0, %6)
  %8: f32[64,128] = aten.mul.Tensor(%2, %6)
  user_output 0 "y" = %7
  gradient 0 "x" = %8
})");
  EXPECT_EQ(SavedTypes(cut.forward), Texts{"i64[2]"});
}

TEST(PartitionTest, AMaskIsSavedRatherThanWhatItIsMadeOf) {
  const Partitioned cut = Cut(R"(graph @joint {
  %0: f32[64,128] = user_input 0 "x"
  %1: f32[64,128] = tangent 0 "t"
  %2: f32[64,128] = aten.exp.default(%0)
  %3: f32[64,128] = aten.sub.Tensor(%2, 1, 1)
  %4: bool[64,128] = aten.gt.Scalar(%3, 0)
  %5: f32[64,128] = aten._to_copy.default(%4)
  %6: f32[64,128] = aten.mul.Tensor(%1, %5)
  user_output 0 "y" = %3
  gradient 0 "x" = %6
})");
  EXPECT_EQ(SavedTypes(cut.forward), Texts{"bool[64,128]"});
}

// Parameters are available in the backward, but a libm call per element costs more than a load.
TEST(PartitionTest, AResultOfLibmIsSaved) {
  for (const char* op : {"aten.hypot.default", "aten.remainder.Tensor", "aten.fmod.Tensor"}) {
    const Partitioned cut = Cut(absl::StrCat(R"(graph @joint {
  %0: f32[64,128] = parameter 0 "x"
  %1: f32[64,128] = parameter 1 "y"
  %2: f32[64,128] = tangent 0 "t"
  %3: f32[64,128] = )",
                                             op, R"((%0, %1)
  %4: f32[64,128] = aten.sin.default(%3)
  %5: f32[64,128] = aten.mul.Tensor(%2, %3)
  user_output 0 "z" = %4
  gradient 0 "x" = %5
})"));
    EXPECT_EQ(SavedTypes(cut.forward), Texts{"f32[64,128]"}) << op;
  }
}

TEST(PartitionTest, AGraphWithoutTangentsIsRefused) {
  const absl::StatusOr<Graph> graph =
      ParseGraph("graph @g {\n  %0: f32[] = user_input 0 \"x\"\n  user_output 0 \"y\" = %0\n}\n");
  EXPECT_EQ(Partition(*graph).status().code(), absl::StatusCode::kInvalidArgument);
}

constexpr absl::string_view kScalarLoss = R"(graph @joint {
  %0: f32[4] = parameter 0 "w"
  %1: f32[] = tangent 0 "t"
  %2: f32[] = aten.sum.default(%0, none)
  %3: f32[4] = aten.expand.default(%1, [4], false)
  user_output 0 "loss" = %2
  gradient 0 "w" = %3
})";

TEST(PartitionTest, ABackwardThatWritesToAnInputGetsThatInput) {
  const Graph joint = LoweredFrom(R"(graph @joint {
  %0: f32[4] = buffer 0 "calls"
  %1: f32[4] = user_input 0 "x"
  %2: f32[4] = user_input 1 "log"
  %3: f32[4] = tangent 0 "t"
  %4: f32[4] = aten.mul.Tensor(%1, 2)
  %5: f32[4] = aten.mul.Tensor(%3, 2)
  %6: f32[4] = aten.add.Tensor(%2, 1, 1)
  %7: f32[4] = aten.add.Tensor(%0, %3, 1)
  user_output 0 "y" = %4
  gradient 1 "x" = %5
  backward_update 2 "log" = %6
  backward_update 0 "calls" = %7
})");
  const absl::StatusOr<Partitioned> parts = Partition(joint);
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_TRUE(VerifyGraph(parts->backward).ok());
  EXPECT_EQ(InputNames(parts->backward), (Texts{"saved saved.0", "tangent t", "buffer calls"}));
  ASSERT_EQ(parts->backward.outputs().size(), 3u);
  EXPECT_EQ(parts->backward.outputs()[1].kind, OutputKind::kInputUpdate);
  EXPECT_EQ(parts->backward.outputs()[1].index, 0);
  EXPECT_EQ(parts->backward.outputs()[2].index, 2);
}

// Its content at the time of the backward counts, so that it is not computed again.
TEST(PartitionTest, ValuesWithoutVersionCheckAreSavedLastAndAsTheyAre) {
  const Partitioned cut = Cut(R"(graph @joint {
  %0: f32[4] = user_input 0 "x" without_version_check
  %1: f32[4] = user_input 1 "w"
  %2: f32[4] = tangent 0 "t"
  %3: f32[4] = tangent 1 "u"
  %4: f32[4] = aten.mul.Tensor(%0, %1)
  %5: f32[4] = aten.mul.Tensor(%1, %1)
  %6: f32[4] = aten.mul.Tensor(%2, %0)
  %7: f32[4] = aten.mul.Tensor(%3, %5)
  %8: f32[4] = aten.mul.Tensor(%7, %1)
  %9: f32[4] = aten.add.Tensor(%6, %8, 1)
  user_output 0 "y" = %4
  user_output 1 "z" = %5 without_version_check
  gradient 1 "w" = %9
})");
  std::vector<bool> unchecked;
  for (const GraphOutput& output : cut.forward.outputs()) {
    if (output.kind == OutputKind::kSaved) unchecked.push_back(output.without_version_check);
  }
  EXPECT_EQ(unchecked, (std::vector<bool>{false, true, true}));
}

TEST(PartitionTest, APolicyChoosesWhatIsSaved) {
  const Graph joint = LoweredFrom(R"(graph @joint {
  %0: f32[64,64] = user_input 0 "x"
  %1: f32[64,64] = user_input 1 "y"
  %2: f32[64,64] = tangent 0 "t"
  %3: f32[64,64] = aten.mm.default(%0, %1)
  %4: f32[64,64] = aten.exp.default(%3)
  %5: f32[64,64] = aten.mul.Tensor(%2, %4)
  user_output 0 "z" = %4
  gradient 0 "x" = %5
})");
  const auto saved_under = [&](SavePolicy policy) {
    const auto parts = Partition(joint, {.save_policy = [policy](const Graph&, const Node&) { return policy; }});
    EXPECT_TRUE(parts.ok()) << parts.status();
    EXPECT_TRUE(VerifyGraph(parts->backward).ok()) << VerifyGraph(parts->backward);
    return SavedTypes(parts->forward).size();
  };
  EXPECT_EQ(saved_under(SavePolicy::kSave), 1u);
  EXPECT_EQ(saved_under(SavePolicy::kDefault), 1u);
  EXPECT_EQ(saved_under(SavePolicy::kRecompute), 2u);
}

TEST(SeedLossTest, TheTangentBecomesOne) {
  Graph graph = LoweredFrom(kScalarLoss);
  ASSERT_TRUE(SeedLoss(graph, 0).ok());
  EXPECT_TRUE(VerifyGraph(graph).ok());
  EXPECT_EQ(InputNames(graph), Texts{"parameter w"});
  EXPECT_EQ(SeedLoss(graph, 0).code(), absl::StatusCode::kInvalidArgument);
}

TEST(SeedLossTest, AnotherOutputWithAGradientIsRefused) {
  Graph graph = LoweredFrom(R"(graph @joint {
  %0: f32[4] = parameter 0 "w"
  %1: f32[] = tangent 0 "t"
  %2: f32[4] = tangent 1 "u"
  %3: f32[] = aten.sum.default(%0, none)
  %4: f32[4] = aten.add.Tensor(%2, %1, 1)
  user_output 0 "loss" = %3
  user_output 1 "w" = %0
  gradient 0 "w" = %4
})");
  const absl::Status status = SeedLoss(graph, 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("'u'"), std::string::npos) << status;
}

}  // namespace
}  // namespace cotan::aot
