// SPDX-License-Identifier: Apache-2.0

#include "aot/saved_tensor_hooks/pack_saved_values.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "aot/ir/prim_node.h"
#include "aot/ir/text.h"
#include "aot/ir/verifier.h"
#include "aot/lowering/lower.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Texts = std::vector<std::string>;

// y = exp(x @ w), count of z unchanged; saved by default: x and y.
constexpr absl::string_view kJoint = R"(graph @joint {
  %0: f32[4,4] = parameter 0 "w"
  %1: f32[4,4] = user_input 0 "x"
  %2: f32[4,4] = tangent 0 "t"
  %3: f32[4,4] = aten.mm.default(%1, %0)
  %4: f32[4,4] = aten.exp.default(%3)
  %5: f32[4,4] = aten.sin.default(%4)
  %6: f32[4,4] = aten.mul.Tensor(%2, %4)
  %7: f32[4,4] = aten.mul.Tensor(%6, %4)
  %8: f32[4,4] = aten.t.default(%1)
  %9: f32[4,4] = aten.mm.default(%8, %7)
  %10: f32[4,4] = aten.t.default(%0)
  %11: f32[4,4] = aten.mm.default(%7, %10)
  user_output 0 "y" = %5
  gradient 0 "w" = %9
  gradient 1 "x" = %11
})";

Graph Lowered(absl::string_view text) {
  const absl::StatusOr<Graph> graph = ParseGraph(std::string(text));
  EXPECT_TRUE(graph.ok()) << graph.status();
  absl::StatusOr<Graph> lowered = LowerToPrims(*graph);
  EXPECT_TRUE(lowered.ok()) << lowered.status();
  return *std::move(lowered);
}

// Packs in bf16.
absl::StatusOr<TracedPair> ToBFloat16(const TensorType& type, const std::string& name) {
  const std::string wide = PrintType(type);
  const std::string narrow = absl::StrReplaceAll(wide, {{"f32", "bf16"}});
  const auto cast = [](const std::string& from, const std::string& to) {
    return Lowered(absl::StrCat("graph @cast {\n  %0: ", from, " = user_input 0 \"x\"\n  %1: ", to,
                                " = aten._to_copy.default(%0)\n  user_output 0 \"y\" = %1\n}\n"));
  };
  return TracedPair{cast(wide, narrow), cast(narrow, wide)};
}

Texts SavedTypes(const Graph& forward) {
  Texts types;
  for (const GraphOutput& output : forward.outputs()) {
    if (output.kind == OutputKind::kSaved) types.push_back(PrintType(forward.value(output.value).type));
  }
  return types;
}

Texts InputsOf(const Graph& backward) {
  Texts inputs;
  for (const GraphInput& input : backward.inputs()) {
    inputs.push_back(absl::StrCat(input.name, " ", PrintType(backward.value(input.value).type)));
  }
  return inputs;
}

Partitioned Packed(const PackedSelection& selection, const PairTracer& trace = ToBFloat16) {
  absl::StatusOr<Partitioned> parts = Partition(Lowered(kJoint), {.partitioner = Partitioner::kDefault});
  EXPECT_TRUE(parts.ok()) << parts.status();
  EXPECT_TRUE(PackSavedValues(selection, trace, *parts).ok());
  EXPECT_TRUE(VerifyGraph(parts->forward).ok()) << VerifyGraph(parts->forward) << PrintGraph(parts->forward);
  EXPECT_TRUE(VerifyGraph(parts->backward).ok()) << VerifyGraph(parts->backward) << PrintGraph(parts->backward);
  return *std::move(parts);
}

TEST(PackSavedValuesTest, TheFilterChoosesActivationsInputsOrParameters) {
  const Partitioned donated = Packed({.filter = HookFilter::kDonated});
  EXPECT_THAT(SavedTypes(donated.forward), ElementsAre("f32[4,4]", "bf16[4,4]"));
  EXPECT_THAT(InputsOf(donated.backward),
              ElementsAre("saved.0 f32[4,4]", "saved.1 bf16[4,4]", "t f32[4,4]", "w f32[4,4]"));
  const Partitioned no_static = Packed({.filter = HookFilter::kNoStatic});
  EXPECT_THAT(InputsOf(no_static.backward),
              ElementsAre("saved.0 bf16[4,4]", "saved.1 bf16[4,4]", "t f32[4,4]", "w f32[4,4]"));
  const Partitioned all = Packed({.filter = HookFilter::kAll});
  EXPECT_THAT(InputsOf(all.backward),
              ElementsAre("saved.0 bf16[4,4]", "saved.1 bf16[4,4]", "saved.2 bf16[4,4]", "t f32[4,4]"));
  EXPECT_THAT(SavedTypes(all.forward), ElementsAre("bf16[4,4]", "bf16[4,4]", "bf16[4,4]"));
}

TEST(PackSavedValuesTest, SmallValuesAreSavedAsTheyAre) {
  EXPECT_THAT(SavedTypes(Packed({.min_elements = 17}).forward), ElementsAre("f32[4,4]", "f32[4,4]"));
  EXPECT_THAT(SavedTypes(Packed({.min_elements = 16}).forward), ElementsAre("f32[4,4]", "bf16[4,4]"));
}

TEST(PackSavedValuesTest, EachValueIsPackedOnceWhereItIsMadeAndUnpackedWhereItIsFirstUsed) {
  int calls = 0;
  Texts names;
  const Partitioned parts = Packed({.filter = HookFilter::kDonated}, [&](const TensorType& type, const std::string& n) {
    ++calls;
    names.push_back(n);
    return ToBFloat16(type, n);
  });
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(names, ElementsAre(HasSubstr("saved value f32[4,4] (aten.exp.default")));
  // In the forward: product, exp, cast, sin.
  ASSERT_EQ(parts.forward.nodes().size(), 4u) << PrintGraph(parts.forward);
  const Node& cast = *std::next(parts.forward.nodes().begin(), 2);
  EXPECT_EQ(cast.outputs[0], parts.forward.outputs().back().value);
  // In the backward: barrier and cast, then the first product by the tangent.
  auto node = parts.backward.nodes().begin();
  EXPECT_TRUE(IsPrim(*node, PrimOp::kBarrier)) << PrintGraph(parts.backward);
  const ValueId unpacked = (++node)->outputs[0];
  const std::vector<ValueId> operands = TensorOperands(*++node);
  EXPECT_NE(std::find(operands.begin(), operands.end(), unpacked), operands.end()) << PrintGraph(parts.backward);
}

TEST(PackSavedValuesTest, APackedTensorGoesToTheHostAndBackUnlessItIsSmall) {
  for (const int64_t min_elements : {16, 17}) {
    const Partitioned parts = Packed({.filter = HookFilter::kDonated, .min_elements = min_elements, .on_host = true});
    const auto copies = [](const Graph& graph, PrimOp op) {
      return std::count_if(graph.nodes().begin(), graph.nodes().end(), [op](const Node& n) { return IsPrim(n, op); });
    };
    const int expected = min_elements == 16 ? 1 : 0;
    EXPECT_EQ(copies(parts.forward, PrimOp::kToHost), expected);
    EXPECT_EQ(copies(parts.backward, PrimOp::kFromHost), expected);
    EXPECT_EQ(copies(parts.backward, PrimOp::kBarrier), 0);
    if (expected == 0) continue;
    // In the forward: product, exp, cast, copy, sin.
    const Node& copy = *std::next(parts.forward.nodes().begin(), 3);
    EXPECT_TRUE(IsPrim(copy, PrimOp::kToHost)) << PrintGraph(parts.forward);
    EXPECT_EQ(copy.outputs[0], parts.forward.outputs().back().value);
    EXPECT_THAT(SavedTypes(parts.forward), ElementsAre("f32[4,4]", "bf16[4,4]"));
  }
}

TEST(PackSavedValuesTest, AnErrorOfThePairIsReturned) {
  absl::StatusOr<Partitioned> parts = Partition(Lowered(kJoint), {.partitioner = Partitioner::kDefault});
  const auto fails = [](const TensorType&, const std::string&) -> absl::StatusOr<TracedPair> {
    return absl::InvalidArgumentError("no");
  };
  EXPECT_EQ(PackSavedValues({}, fails, *parts), absl::InvalidArgumentError("no"));
}

TEST(RejoinTest, TheJointGraphHasItsInputsAndOutputsAgain) {
  const Graph joint = Lowered(kJoint);
  const Graph rejoined = Rejoin(joint, Packed({.filter = HookFilter::kAll}));
  ASSERT_TRUE(VerifyGraph(rejoined).ok()) << VerifyGraph(rejoined) << PrintGraph(rejoined);
  EXPECT_EQ(InputsOf(rejoined), InputsOf(joint));
  ASSERT_EQ(rejoined.outputs().size(), joint.outputs().size());
  for (size_t i = 0; i < joint.outputs().size(); ++i) {
    EXPECT_EQ(rejoined.outputs()[i].kind, joint.outputs()[i].kind);
    EXPECT_EQ(rejoined.outputs()[i].index, joint.outputs()[i].index);
    EXPECT_EQ(rejoined.outputs()[i].name, joint.outputs()[i].name);
  }
  const auto barriers = std::count_if(rejoined.nodes().begin(), rejoined.nodes().end(),
                                      [](const Node& node) { return IsPrim(node, PrimOp::kBarrier); });
  EXPECT_EQ(barriers, 3);
}

TEST(RejoinTest, FusionKeepsPackInTheForward) {
  Graph graph = Rejoin(Lowered(kJoint), Packed({.filter = HookFilter::kNoStatic}));
  ASSERT_TRUE(Optimize(graph, {}).ok());
  // A node that reads a bf16 value does not compute it.
  int stored = 0;
  for (const Node& node : graph.nodes()) {
    EXPECT_FALSE(IsPrim(node, PrimOp::kBarrier));
    for (const ValueId value : node.outputs) stored += graph.value(value).type.dtype == DType::kBFloat16 ? 1 : 0;
  }
  EXPECT_EQ(stored, 2) << PrintGraph(graph);
}

}  // namespace
}  // namespace cotan::aot
