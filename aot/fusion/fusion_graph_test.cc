// SPDX-License-Identifier: Apache-2.0

#include "aot/fusion/fusion_graph.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "aot/ir/text.h"
#include "aot/ir/verifier.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

constexpr absl::string_view kText = R"(graph @g {
  %0: f32[4,6] = user_input 0 "x"
  %1: f32[4,6] = cotan.expr(%0) {
    domain [4,6]
    0: f32 = input 0
    1: f32 = exp 0
    store 1
  }
  %2: f32[24] = prim.view(%1, [24])
  %3: f32[24] = cotan.expr(%2) {
    domain [24]
    0: f32 = input 0
    1: f32 = neg 0
    2: f32 = abs 0
    store 1
  }
  %4: f32[4,6] = prim.copy(%1)
  user_output 0 "y" = %3
}
)";

TEST(FusionGraphTest, PutsBackWhatItTookWithoutDeadUnitsAndInstructions) {
  Graph graph = *ParseGraph(kText);
  FusionGraph units(graph);
  EXPECT_TRUE(graph.nodes().empty());
  units.DropUnused();
  ASSERT_TRUE(units.Rebuild().ok());
  EXPECT_EQ(graph.nodes().size(), 3u);
  EXPECT_EQ(graph.nodes().back().expr->instructions_size(), 2);
  EXPECT_TRUE(VerifyGraph(graph).ok());
}

TEST(FusionGraphTest, KnowsWhoNeedsWhat) {
  Graph graph = *ParseGraph(kText);
  FusionGraph units(graph);
  EXPECT_EQ(units.Producer(1), 0);
  EXPECT_EQ(units.Producer(0), -1);
  EXPECT_EQ(units.StripReshape(2), 1);
  EXPECT_EQ(units.Readers(1), (std::set<int>{2, 3}));
  EXPECT_TRUE(units.NeededOutside(1, 0, 2));
  EXPECT_TRUE(units.NeededOutsideThroughViews(1, 0, 2));
  EXPECT_FALSE(units.NeededOutsideThroughViews(3, 2, 2));
  EXPECT_TRUE(units.IsOutput(3));
}

TEST(FusionGraphTest, KnowsWhatWouldMakeACycle) {
  Graph graph = *ParseGraph(kText);
  FusionGraph units(graph);
  EXPECT_TRUE(units.DependsOnEither({2}, 0, 3));
  EXPECT_FALSE(units.DependsOnEither({1, 0}, 0, 3));
  EXPECT_FALSE(units.DependsOnEither({4}, 1, 2));
}

// Returns, by unit, true if `id` depends on it, by a walk over the whole graph.
std::vector<bool> Ancestors(const FusionGraph& units, int id) {
  std::vector<bool> found(static_cast<size_t>(units.num_units()));
  std::vector<int> pending = {id};
  while (!pending.empty()) {
    const int next = pending.back();
    pending.pop_back();
    for (const ValueId value : units.OperandsOf(next)) {
      const int producer = units.Producer(value);
      if (producer < 0 || found[static_cast<size_t>(producer)]) continue;
      found[static_cast<size_t>(producer)] = true;
      pending.push_back(producer);
    }
  }
  return found;
}

bool Depends(const FusionGraph& units, int id, int on) { return Ancestors(units, id)[static_cast<size_t>(on)]; }

// Merges units of random graphs of sums in random order. The results stay equal to those of a plain
// walk, and no merge makes a cycle.
TEST(FusionGraphTest, OrderHoldsWhateverIsMerged) {
  constexpr int kUnits = 40;
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::string text = "graph @g {\n  %0: f32[4] = user_input 0 \"x\"\n";
    for (uint32_t value = 1; value <= kUnits; ++value) {
      absl::StrAppend(&text, "  %", value, ": f32[4] = cotan.expr(%", random() % value, ", %", random() % value,
                      ") {\n domain [4]\n 0: f32 = input 0\n 1: f32 = input 1\n 2: f32 = add 0 1\n store 2\n }\n");
    }
    absl::StrAppend(&text, "  user_output 0 \"y\" = %", kUnits, "\n}\n");
    absl::StatusOr<Graph> graph = ParseGraph(text);
    ASSERT_TRUE(graph.ok()) << graph.status();
    FusionGraph units(*graph);
    units.DropUnused();
    for (int i = 0; i < 300; ++i) {
      const auto a = static_cast<int>(random() % kUnits), b = static_cast<int>(random() % kUnits);
      if (a == b || !units.IsExpr(a) || !units.IsExpr(b) || Depends(units, a, b)) continue;
      std::vector<ValueId> needed = units.ExprOf(a).inputs;
      needed.insert(needed.end(), units.ExprOf(b).inputs.begin(), units.ExprOf(b).inputs.end());
      const bool cycle = std::any_of(needed.begin(), needed.end(), [&](ValueId value) {
        const int producer = units.Producer(value);
        return producer >= 0 && producer != a && producer != b &&
               (Depends(units, producer, a) || Depends(units, producer, b));
      });
      ASSERT_EQ(units.DependsOnEither(needed, a, b), cycle) << a << " into " << b;
      const std::vector<bool> before = Ancestors(units, a), all = Ancestors(units, b);
      bool waits = false;
      for (int id = 0; id < kUnits; ++id) {
        waits |= id % 3 == 0 && all[static_cast<size_t>(id)] && !before[static_cast<size_t>(id)];
      }
      ASSERT_EQ(units.WaitsFor(b, a, [](int id) { return id % 3 == 0; }), waits);
      std::optional<FusedExpr> merged = Merge(units.ExprOf(a), units.ExprOf(b));
      if (!cycle && merged.has_value()) units.MergeInto(a, b, *std::move(merged));
    }
    units.DropUnused();
    ASSERT_TRUE(units.Rebuild().ok());
    EXPECT_TRUE(VerifyGraph(*graph).ok());
  }
}

TEST(FusionGraphTest, AViewThatWasDroppedIsMadeAnew) {
  Graph graph = *ParseGraph(kText);
  FusionGraph units(graph);
  const ValueId dropped = units.ViewOf(1, {2, 12});
  EXPECT_EQ(units.ViewOf(1, {2, 12}), dropped);
  units.DropUnused();
  const ValueId view = units.ViewOf(1, {2, 12});
  EXPECT_NE(view, dropped);
  EXPECT_TRUE(units.unit(units.Producer(view)).alive);
}

TEST(FusionGraphTest, AReshapedUnitKeepsItsResultsAsViews) {
  Graph graph = *ParseGraph(kText);
  FusionGraph units(graph);
  const FusedExpr& negate = units.ExprOf(2);
  const std::optional<Reshaped> reshaped = Reshape(negate, units.TypesOf(negate.inputs), {4, 6});
  ASSERT_TRUE(reshaped.has_value());
  units.ApplyReshape(2, *reshaped);
  EXPECT_EQ(units.ExprOf(2).inputs, (std::vector<ValueId>{1}));
  EXPECT_EQ(units.StripReshape(3), units.ExprOf(2).outputs[0]);
  units.DropUnused();
  ASSERT_TRUE(units.Rebuild().ok());
  EXPECT_TRUE(VerifyGraph(graph).ok()) << VerifyGraph(graph);
}

}  // namespace
}  // namespace cotan::aot
