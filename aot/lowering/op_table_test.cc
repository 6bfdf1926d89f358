// SPDX-License-Identifier: Apache-2.0

#include "aot/lowering/op_table.h"

#include "absl/strings/match.h"
#include "aot/ir/text.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

TEST(OpTableTest, RowsAreUniqueSortedAndNamed) {
  const absl::Span<const OpRow> table = OpTable();
  ASSERT_GT(table.size(), 300u);
  for (size_t i = 0; i < table.size(); ++i) {
    EXPECT_TRUE(absl::StartsWith(table[i].op, "aten.") || absl::StartsWith(table[i].op, "cotan.")) << table[i].op;
    EXPECT_NE(table[i].lower, nullptr) << table[i].op;
    if (i > 0) {
      EXPECT_LT(table[i - 1].op, table[i].op);
    }
  }
}

TEST(OpTableTest, FindsRowsByName) {
  ASSERT_NE(FindOp("aten.add.Tensor"), nullptr);
  EXPECT_EQ(FindOp("aten.add.Tensor")->family, OpFamily::kPointwise);
  EXPECT_EQ(FindOp("aten.add"), nullptr);
  EXPECT_TRUE(IsSupported("cotan.random_uniform.default"));
}

TEST(OpTableTest, UnsupportedOpsAreListedOnceInOrder) {
  const absl::StatusOr<Graph> graph = ParseGraph(R"(graph @g {
  %0: f32[2] = user_input 0 "x"
  %1: f32[2] = aten.zzz.default(%0)
  %2: f32[2] = aten.exp.default(%1)
  %3: f32[2] = aten.bbb.default(%2)
  %4: f32[2] = aten.zzz.default(%3)
})");
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(UnsupportedOps(*graph), (std::vector<std::string>{"aten.bbb.default", "aten.zzz.default"}));
}

}  // namespace
}  // namespace cotan::aot
