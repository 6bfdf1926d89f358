// SPDX-License-Identifier: Apache-2.0

#include "aot/ir/builder.h"

#include <iterator>

#include "aot/ir/text.h"
#include "aot/ir/verifier.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

class BuilderTest : public testing::Test {
 protected:
  Tensor Input(DType dtype, SymIntVector sizes) {
    return b_.Value(graph_.AddInput({dtype, std::move(sizes), {}}, InputKind::kUserInput,
                                    static_cast<int>(graph_.inputs().size()), ""));
  }
  Tensor F32(SymIntVector sizes) { return Input(DType::kFloat32, std::move(sizes)); }
  std::string NodesText() const {
    std::string text;
    for (const Node& node : graph_.nodes()) text += PrintNode(graph_, node) + "\n";
    return text;
  }

  Graph graph_;
  Builder b_{&graph_};
};

TEST_F(BuilderTest, OperandsBroadcastAndLiteralsTakeTheirPartnersDType) {
  const Tensor sum = F32({4, 1}) * b_.Literal(SymInt(2)) + F32({8});
  EXPECT_EQ(PrintType(sum.type()), "f32[4,8]");
  EXPECT_TRUE(b_.status().ok());
  EXPECT_TRUE(VerifyGraph(graph_).ok());
}

TEST_F(BuilderTest, ExpandedOperandsAreLoadedAsTheyWere) {
  const Tensor x = F32({4, 1});
  const Tensor y = b_.Exp(b_.Expand(x, {4, 8}));
  EXPECT_EQ(PrintType(y.type()), "f32[4,8]");
  EXPECT_EQ(TensorOperands(graph_.nodes().back())[0], x.id());
  EXPECT_TRUE(VerifyGraph(graph_).ok());
}

TEST_F(BuilderTest, ViewsOfViewsAreMergedAndIdentitiesVanish) {
  const Tensor x = F32({2, 3, 4});
  const Tensor flat = b_.View(b_.View(x, {6, 4}), {24});
  EXPECT_EQ(PrintNode(graph_, graph_.nodes().back()), "%2: f32[24] = prim.view(%0, [24])");
  EXPECT_EQ(b_.View(flat, {2, 3, 4}).id(), x.id());
  const Tensor turned = b_.Permute(x, {2, 0, 1});
  EXPECT_EQ(b_.Permute(turned, {1, 2, 0}).id(), x.id());
  EXPECT_EQ(b_.Slice(x, 1, 0, 3, 1).id(), x.id());
}

TEST_F(BuilderTest, OnlyNeighboursAreSeenAsComplexNumbers) {
  const Tensor x = F32({3, 4, 2});
  b_.ViewAsComplex(b_.Permute(x, {1, 0, 2}));
  EXPECT_EQ(TensorOperands(graph_.nodes().back())[0], graph_.nodes().front().outputs[0]);
  for (const Tensor& apart : {b_.Permute(F32({2, 3}), {1, 0}), b_.Expand(F32({3, 1}), {3, 2})}) {
    b_.ViewAsComplex(apart);
    EXPECT_EQ(std::prev(graph_.nodes().end(), 2)->op, "prim.copy");
  }
  EXPECT_TRUE(VerifyGraph(graph_).ok());
}

TEST_F(BuilderTest, ReductionsKeepTheirDimensionsWithSizeOne) {
  EXPECT_EQ(PrintType(b_.ReduceSum(F32({2, 3, 4}), {-1, 0}).type()), "f32[1,3,1]");
  EXPECT_EQ(PrintType(b_.ReduceMean(F32({}), {0}).type()), "f32[]");
}

TEST_F(BuilderTest, SymbolicSizesStaySymbolic) {
  const SymInt s = SymInt::Symbol(0);
  const Tensor mean = b_.ReduceMean(F32({s, SymInt(4)}), {0, 1});
  EXPECT_EQ(PrintType(mean.type()), "f32[1,1]");
  EXPECT_NE(NodesText().find("size (s0 * 4)"), std::string::npos) << NodesText();
}

TEST_F(BuilderTest, MisfitsAreReportedOnce) {
  b_.Matmul(F32({2, 3}), F32({3}));
  const absl::Status first = b_.status();
  EXPECT_EQ(first.code(), absl::StatusCode::kInternal);
  (void)(F32({2}) + F32({3}));
  EXPECT_EQ(b_.status(), first);
}

TEST_F(BuilderTest, OperandsOfDifferentDTypesAreRefused) {
  (void)(F32({2}) + Input(DType::kInt64, {2}));
  EXPECT_NE(b_.status().message().find("i64"), std::string::npos) << b_.status();
}

}  // namespace
}  // namespace cotan::aot
