// SPDX-License-Identifier: Apache-2.0

#include "aot/fusion/expr_merge.h"

#include "absl/strings/str_split.h"
#include "aot/ir/expr_text.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

// Returns a program whose inputs and outputs are the given values.
FusedExpr Make(absl::string_view text, std::vector<ValueId> inputs, std::vector<ValueId> outputs) {
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  Node node{"cotan.expr", {}, std::move(outputs), "", nullptr};
  for (const ValueId id : inputs) node.arguments.push_back(Use{id});
  node.expr = std::make_shared<const serialization::Expr>(*ParseExpr(lines));
  return FusedExpr::FromNode(node);
}

std::string Text(const FusedExpr& fused) {
  Node node;
  fused.ToNode(node);
  return PrintExpr(*node.expr);
}

const TensorType kMatrix{DType::kFloat32, {SymInt(4), SymInt(6)}, {}};

TEST(SimplifyTest, FoldsSharesAndDrops) {
  FusedExpr fused = Make(
      "domain [4,6]\n0: f32 = input 0\n1: f32 = constant 2.0\n2: f32 = constant 0.5\n3: f32 = mul 1 2\n4: f32 = mul 0 "
      "3\n"
      "5: f32 = exp 4\n6: f32 = input 0\n7: f32 = exp 6\n8: f32 = input 1\n9: f32 = neg 8\n10: f32 = add 5 7\nstore "
      "10\n",
      {1, 2}, {3});
  Simplify(fused);
  EXPECT_EQ(Text(fused), "domain [4,6]\n0: f32 = input 0\n1: f32 = exp 0\n2: f32 = add 1 1\nstore 2\n");
  EXPECT_EQ(fused.inputs, (std::vector<ValueId>{1}));
}

TEST(SimplifyTest, DividesByPowersOfTwoByMultiplying) {
  FusedExpr fused =
      Make("domain [4,6]\n0: f32 = input 0\n1: f32 = constant 8.0\n2: f32 = div 0 1\nstore 2\n", {1}, {2});
  Simplify(fused);
  EXPECT_EQ(Text(fused), "domain [4,6]\n0: f32 = input 0\n1: f32 = constant 0.125\n2: f32 = mul 0 1\nstore 2\n");
}

TEST(SimplifyTest, FoldsInThePrecisionOfTheDType) {
  FusedExpr fused =
      Make("domain []\n0: f32 = constant 0.1\n1: f32 = neg 0\n2: f32 = input 0\n3: f32 = add 2 1\nstore 3\n", {1}, {2});
  Simplify(fused);
  EXPECT_EQ(fused.instructions[0].float_value(), static_cast<double>(-0.1f));
}

TEST(MergeTest, APointwiseConsumerJoinsAReduction) {
  const FusedExpr sum = Make("domain [4,6] reduce [1]\n0: f32 = input 0\n1: f32 = reduce_sum 0\nstore 1\n", {1}, {2});
  const FusedExpr divide =
      Make("domain [4,6]\n0: f32 = input 0\n1: f32 = input 1\n2: f32 = div 0 1\nstore 2\n", {1, 2}, {3});
  const std::optional<FusedExpr> merged = Merge(sum, divide);
  ASSERT_TRUE(merged.has_value());
  FusedExpr simple = *merged;
  Simplify(simple);
  EXPECT_EQ(Text(simple),
            "domain [4,6] reduce [1]\n0: f32 = input 0\n1: f32 = reduce_sum 0\n2: f32 = div 0 1\nstore 1 2\n");
  EXPECT_EQ(simple.outputs, (std::vector<ValueId>{2, 3}));
}

TEST(MergeTest, AFunctionOfReducedValuesJoinsTheReduction) {
  const FusedExpr sum = Make("domain [4,6] reduce [1]\n0: f32 = input 0\n1: f32 = reduce_sum 0\nstore 1\n", {1}, {2});
  const FusedExpr root = Make("domain [4,1]\n0: f32 = input 0\n1: f32 = sqrt 0\nstore 1\n", {2}, {3});
  const std::optional<FusedExpr> merged = Merge(sum, root);
  ASSERT_TRUE(merged.has_value());
  EXPECT_EQ(Text(*merged),
            "domain [4,6] reduce [1]\n0: f32 = input 0\n1: f32 = reduce_sum 0\n2: f32 = sqrt 1\nstore 1 2\n");
}

TEST(MergeTest, ReductionsOverOtherDimensionsDoNotMerge) {
  const FusedExpr rows = Make("domain [4,6] reduce [1]\n0: f32 = input 0\n1: f32 = reduce_sum 0\nstore 1\n", {1}, {2});
  const FusedExpr columns =
      Make("domain [4,6] reduce [0]\n0: f32 = input 0\n1: f32 = reduce_sum 0\nstore 1\n", {1}, {3});
  EXPECT_FALSE(Merge(rows, columns).has_value());
}

TEST(ReshapeTest, SplitsAndMergesWholeGroupsOfDimensions) {
  const FusedExpr sum = Make(
      "domain [4,6] reduce [0]\n0: f32 = input 0\n1: f32 = input 1\n2: f32 = add 0 1\n3: f32 = reduce_sum 2\nstore 3 "
      "2\n",
      {1, 2}, {3, 4});
  const std::vector<TensorType> types = {kMatrix, {DType::kFloat32, {SymInt(6)}, {}}};
  const std::optional<Reshaped> reshaped = Reshape(sum, types, {2, 2, 6});
  ASSERT_TRUE(reshaped.has_value());
  EXPECT_EQ(reshaped->fused.reduce_dims, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(reshaped->input_sizes[0], (SymIntVector{2, 2, 6}));
  EXPECT_EQ(reshaped->input_sizes[1], (SymIntVector{1, 1, 6}));
  EXPECT_EQ(reshaped->output_sizes[0], (SymIntVector{1, 1, 6}));
  EXPECT_EQ(reshaped->output_sizes[1], (SymIntVector{2, 2, 6}));
}

TEST(ReshapeTest, RefusesToMergeReducedWithKeptDimensions) {
  const FusedExpr sum = Make("domain [4,6] reduce [1]\n0: f32 = input 0\n1: f32 = reduce_sum 0\nstore 1\n", {1}, {2});
  const std::vector<TensorType> types = {kMatrix};
  EXPECT_FALSE(Reshape(sum, types, {24}).has_value());
}

TEST(ReshapeTest, RefusesToMergeABroadcastDimensionWithAFullOne) {
  const FusedExpr add = Make("domain [4,6]\n0: f32 = input 0\n1: f32 = exp 0\nstore 1\n", {1}, {2});
  const std::vector<TensorType> types = {{DType::kFloat32, {SymInt(6)}, {}}};
  EXPECT_FALSE(Reshape(add, types, {24}).has_value());
}

TEST(ReshapeTest, APositionFollowsItsDimension) {
  const FusedExpr iota = Make("domain [4,6]\n0: i64 = iota 1\nstore 0\n", {}, {2});
  const std::optional<Reshaped> reshaped = Reshape(iota, {}, {2, 2, 6});
  ASSERT_TRUE(reshaped.has_value());
  EXPECT_EQ(reshaped->fused.instructions[0].index(), 2u);
  EXPECT_FALSE(Reshape(iota, {}, {24}).has_value());
}

}  // namespace
}  // namespace cotan::aot
