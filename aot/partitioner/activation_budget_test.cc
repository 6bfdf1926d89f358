// SPDX-License-Identifier: Apache-2.0

#include "aot/partitioner/activation_budget.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "aot/ir/prim_node.h"
#include "aot/ir/text.h"
#include "aot/partitioner/test_cuts.h"

namespace cotan::aot {
namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr int kUnit = 512;  // kUnit * kUnit floats are 1 MiB

struct Product {
  int rows, inner, columns;  // in units
};

std::string F32(int rows, int columns) { return absl::StrCat("f32[", rows * kUnit, ",", columns * kUnit, "]"); }

// Returns the joint graph of cos(x * w) for each product; only w needs a gradient.
std::string ParallelProducts(const std::vector<Product>& products) {
  const int n = static_cast<int>(products.size());
  std::string text = "graph @joint {\n";
  const auto line = [&](int id, const std::string& type, const std::string& rest) {
    absl::StrAppend(&text, "  %", id, ": ", type, " = ", rest, "\n");
  };
  for (int i = 0; i < n; ++i) {
    const Product& p = products[static_cast<size_t>(i)];
    line(2 * i, F32(p.rows, p.inner), absl::StrCat("parameter ", 2 * i, " \"x", i, "\""));
    line(2 * i + 1, F32(p.inner, p.columns), absl::StrCat("parameter ", 2 * i + 1, " \"w", i, "\""));
  }
  for (int i = 0; i < n; ++i) {
    const Product& p = products[static_cast<size_t>(i)];
    line(2 * n + i, F32(p.rows, p.columns), absl::StrCat("tangent ", i, " \"t", i, "\""));
  }
  std::string outputs;
  for (int i = 0; i < n; ++i) {
    const Product& p = products[static_cast<size_t>(i)];
    const std::string result = F32(p.rows, p.columns);
    const int id = 3 * n + 6 * i;
    line(id, result, absl::StrCat("aten.mm.default(%", 2 * i, ", %", 2 * i + 1, ")"));
    line(id + 1, result, absl::StrCat("aten.cos.default(%", id, ")"));
    line(id + 2, result, absl::StrCat("aten.sin.default(%", id, ")"));
    line(id + 3, result, absl::StrCat("aten.mul.Tensor(%", 2 * n + i, ", %", id + 2, ")"));
    line(id + 4, F32(p.inner, p.rows), absl::StrCat("aten.t.default(%", 2 * i, ")"));
    line(id + 5, F32(p.inner, p.columns), absl::StrCat("aten.mm.default(%", id + 4, ", %", id + 3, ")"));
    absl::StrAppend(&outputs, "  user_output ", i, " \"y", i, "\" = %", id + 1, "\n");
  }
  for (int i = 0; i < n; ++i) {
    absl::StrAppend(&outputs, "  gradient ", 2 * i + 1, " \"w", i, "\" = %", 3 * n + 6 * i + 5, "\n");
  }
  return absl::StrCat(text, outputs, "}\n");
}

// Returns the multiplications of all products of a graph, in cubes of the unit.
int64_t Work(const Graph& graph) {
  int64_t work = 0;
  for (const Node& node : graph.nodes()) {
    if (!IsPrim(node, PrimOp::kMatmul)) continue;
    const SymIntVector& left = graph.value(OperandOf(node, "a")).type.sizes;
    const SymIntVector& right = graph.value(OperandOf(node, "b")).type.sizes;
    work += left[0].constant() / kUnit * (left[1].constant() / kUnit) * (right[1].constant() / kUnit);
  }
  return work;
}

Partitioned CutWithin(const std::string& text, double budget) {
  return Cut(text, {.activation_memory_budget = budget});
}

TEST(ActivationBudgetTest, SavesExactlyWhatFitsOfParallelProducts) {
  const std::string four = ParallelProducts({{11, 1, 1}, {3, 1, 1}, {4, 1, 1}, {2, 1, 1}});
  for (const int mib : {20, 18, 17, 16, 15, 14, 13, 11, 7, 6, 5, 0}) {
    EXPECT_EQ(SavedBytes(CutWithin(four, mib / 20.0).forward), mib * kMiB) << mib;
  }
  const std::string five = ParallelProducts({{3, 1, 1}, {5, 1, 1}, {11, 1, 1}, {17, 1, 1}, {14, 1, 1}});
  for (const int mib : {50, 42, 30, 19, 8, 3, 0}) {
    EXPECT_EQ(SavedBytes(CutWithin(five, mib / 50.0).forward), mib * kMiB) << mib;
  }
}

TEST(ActivationBudgetTest, TheCheaperProductIsRepeated) {
  const std::string text = ParallelProducts({{1, 1, 4}, {2, 2, 2}});
  const Partitioned all = CutWithin(text, 1);
  EXPECT_EQ(SavedBytes(all.forward), 8 * kMiB);
  EXPECT_EQ(Work(all.forward) + Work(all.backward), 24);
  const Partitioned half = CutWithin(text, 0.5);
  EXPECT_EQ(SavedBytes(half.forward), 4 * kMiB);
  EXPECT_EQ(Work(half.forward) + Work(half.backward), 28);
}

TEST(ActivationBudgetTest, SavesTheMostWorkNotTheMostBytes) {
  const std::string text = ParallelProducts({{4, 4, 4}, {6, 6, 2}, {2, 2, 6}});
  const Partitioned all = CutWithin(text, 1);
  const int64_t work = Work(all.forward) + Work(all.backward);
  EXPECT_EQ(SavedBytes(all.forward), 40 * kMiB);
  const Partitioned more = CutWithin(text, 28.0 / 40);
  EXPECT_EQ(SavedBytes(more.forward), 28 * kMiB);
  EXPECT_EQ(Work(more.forward) + Work(more.backward), work + 24);
  const Partitioned less = CutWithin(text, 16.0 / 40);
  EXPECT_EQ(SavedBytes(less.forward), 12 * kMiB);
  EXPECT_EQ(Work(less.forward) + Work(less.backward), work + 88);
}

TEST(ActivationBudgetTest, AMatrixProductIsNotRepeatedForWhatACosineGives) {
  const std::string text = R"(graph @joint {
  %0: f32[512,512] = parameter 0 "x"
  %1: f32[512,512] = parameter 1 "w"
  %2: f32[] = tangent 0 "t"
  %3: f32[512,512] = aten.cos.default(%0)
  %4: f32[512,512] = aten.mm.default(%3, %1)
  %5: f32[] = aten.sum.default(%4, none)
  %6: f32[512,512] = aten.expand.default(%2, [512, 512], false)
  %7: f32[512,512] = aten.t.default(%3)
  %8: f32[512,512] = aten.mm.default(%7, %6)
  %9: f32[512,512] = aten.t.default(%1)
  %10: f32[512,512] = aten.mm.default(%6, %9)
  %11: f32[512,512] = aten.sin.default(%0)
  %12: f32[512,512] = aten.mul.Tensor(%10, %11)
  user_output 0 "y" = %5
  gradient 0 "x" = %12
  gradient 1 "w" = %8
})";
  const Partitioned all = CutWithin(text, 1);
  EXPECT_EQ(SavedBytes(all.forward), kMiB);
  const Partitioned half = CutWithin(text, 0.5);
  EXPECT_EQ(SavedBytes(half.forward), 0);
  for (const Partitioned* cut : {&all, &half}) EXPECT_EQ(Work(cut->forward) + Work(cut->backward), 3);
}

TEST(ActivationBudgetTest, WhatThePolicySavesIsNotRepeated) {
  const SavePolicyFunction keep_sorted = [](const Graph&, const Node& node) {
    return IsPrim(node, PrimKind::kSort) ? SavePolicy::kSave : SavePolicy::kDefault;
  };
  const std::string text = R"(graph @joint {
  %0: f32[64] = parameter 0 "x"
  %1: f32[4] = tangent 0 "t"
  %2: f32[64] = aten.sin.default(%0)
  %3: f32[4], %4: i64[4] = aten.topk.default(%2, 4, -1, true, true)
  %5: f32[4] = aten._to_copy.default(%4)
  %6: f32[4] = aten.sin.default(%5)
  %7: f32[4] = aten.cos.default(%3)
  %8: f32[4] = aten.mul.Tensor(%7, %6)
  %9: f32[4] = aten.mul.Tensor(%1, %6)
  %10: f32[4] = aten.sin.default(%3)
  %11: f32[4] = aten.mul.Tensor(%9, %10)
  user_output 0 "y" = %8
  gradient 0 "x" = %11
})";
  const Partitioned kept = Cut(text, {.activation_memory_budget = 0.1, .save_policy = keep_sorted});
  EXPECT_EQ(CountOps(kept.forward, "prim.sort"), 1);
  EXPECT_EQ(CountOps(kept.backward, "prim.sort"), 0);
  EXPECT_EQ(CountOps(CutWithin(text, 0).backward, "prim.sort"), 1);
}

// Chains of products and functions over shared and own inputs.
std::string RandomJoint(std::mt19937& random) {
  const int depth = 3 + static_cast<int>(random() % 6);
  std::string text =
      "graph @joint {\n  %0: f32[32,32] = user_input 0 \"x\"\n  %1: f32[32,32] = parameter 0 \"w\"\n"
      "  %2: f32[32,32] = tangent 0 \"t\"\n";
  std::vector<int> values = {0};
  int next = 3;
  const auto emit = [&](const std::string& rest) {
    absl::StrAppend(&text, "  %", next, ": f32[32,32] = ", rest, "\n");
    return next++;
  };
  for (int i = 0; i < depth; ++i) {
    const int a = values[random() % values.size()];
    switch (random() % 4) {
      case 0:
        values.push_back(emit(absl::StrCat("aten.mm.default(%", a, ", %1)")));
        break;
      case 1:
        values.push_back(emit(absl::StrCat("aten.sin.default(%", a, ")")));
        break;
      case 2:
        values.push_back(emit(absl::StrCat("aten.mul.Tensor(%", a, ", %", values[random() % values.size()], ")")));
        break;
      default:
        values.push_back(emit(absl::StrCat("aten.cumsum.default(%", a, ", 1, none)")));
    }
  }
  int gradient = 2;
  for (size_t i = values.size(); i-- > 0;) {
    if (random() % 3 == 0) continue;
    gradient = random() % 2 == 0 ? emit(absl::StrCat("aten.mul.Tensor(%", gradient, ", %", values[i], ")"))
                                 : emit(absl::StrCat("aten.mm.default(%", gradient, ", %", values[i], ")"));
  }
  absl::StrAppend(&text, "  user_output 0 \"y\" = %", values.back(), "\n  gradient 0 \"x\" = %", gradient, "\n}\n");
  return text;
}

TEST(ActivationBudgetTest, ASmallerBudgetNeverSavesMoreAndTheBudgetIsKept) {
  std::mt19937 random(11);
  int between = 0;  // budgets that save neither the most nor the least
  for (int trial = 0; trial < 60; ++trial) {
    const std::string text = RandomJoint(random);
    const int64_t most = SavedBytes(CutWithin(text, 1).forward);
    const int64_t least = SavedBytes(CutWithin(text, 0).forward);
    int64_t last = most;
    for (double budget = 1; budget >= 0; budget -= 0.125) {
      const int64_t saved = SavedBytes(CutWithin(text, budget).forward);
      EXPECT_LE(saved, last) << budget << "\n" << text;
      EXPECT_LE(static_cast<double>(saved - least), budget * static_cast<double>(most - least)) << budget << "\n"
                                                                                                << text;
      between += saved < most && saved > least ? 1 : 0;
      last = saved;
    }
  }
  EXPECT_GT(between, 20);
}

TEST(ActivationBudgetTest, BudgetsOutsideTheirRangeAreRefusedByName) {
  for (const double budget : {-0.1, 1.5, std::nan(""), std::numeric_limits<double>::infinity()}) {
    const absl::Status status = CheckPartitionOptions({.activation_memory_budget = budget});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << budget;
    EXPECT_NE(status.message().find("activation_memory_budget"), std::string::npos) << status;
  }
  EXPECT_EQ(CheckPartitionOptions({.partitioner = Partitioner::kDefault, .activation_memory_budget = 0.5}).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cotan::aot
