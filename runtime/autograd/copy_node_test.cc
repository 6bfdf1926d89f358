// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/copy_node.h"

#include <memory>

#include "runtime/autograd/test_support.h"

namespace cotan::autograd {
namespace {

using ::testing::ElementsAre;

TEST(CopyNodeTest, TheOverwrittenGetsZerosAndTheSourceTheGradient) {
  CopyNode node;
  const bool needed[] = {true, true};
  BackwardContext context(Ops(), needed);
  Tensor gradient = Vector({1, 2});
  const Gradients results = *node.Apply(context, absl::MakeSpan(&gradient, 1));
  EXPECT_THAT(ToVector(results[0]), ElementsAre(0, 0));
  EXPECT_THAT(ToVector(results[1]), ElementsAre(1, 2));
}

TEST(CopyNodeTest, NobodyAskedNothingIsMade) {
  CopyNode node;
  const bool needed[] = {false, false};
  BackwardContext context(Ops(), needed);
  Tensor gradient = Vector({1, 2});
  const Gradients results = *node.Apply(context, absl::MakeSpan(&gradient, 1));
  for (const Tensor& result : results) EXPECT_FALSE(result.defined());
}

class CopySlicesTest : public ::testing::Test {
 protected:
  // Elements 1 and 2 of four were overwritten by a copy.
  CopySlicesTest() {
    auto copy = std::make_shared<CopyNode>();
    copy->AddEdge({});
    copy->AddEdge({});
    copy->SetWriterEdge(1);
    node_ = std::make_unique<CopySlicesNode>(
        ViewedGeometry{DType::kFloat32, {.sizes = {4}, .strides = {1}}},
        ViewedGeometry{DType::kFloat32, {.sizes = {2}, .strides = {1}, .offset = 1}}, Edge(), std::move(copy));
  }

  std::unique_ptr<CopySlicesNode> node_;
};

TEST_F(CopySlicesTest, OnlyTheSlicePassesTheOperation) {
  const bool needed[] = {true, true};
  BackwardContext context(Ops(), needed);
  const Tensor incoming = Vector({1, 2, 3, 4});
  Tensor gradient = incoming;
  const Gradients results = *node_->Apply(context, absl::MakeSpan(&gradient, 1));
  EXPECT_THAT(ToVector(results[0]), ElementsAre(1, 0, 0, 4));
  EXPECT_THAT(ToVector(results[1]), ElementsAre(2, 3));
  EXPECT_THAT(ToVector(incoming), ElementsAre(1, 2, 3, 4)) << "incoming gradients are not written";
}

TEST_F(CopySlicesTest, TheWriterOfTheSliceIsThatOfTheOperation) { EXPECT_EQ(node_->writer_edge(), 1); }

TEST_F(CopySlicesTest, RunsOnceUnlessRetained) {
  const bool needed[] = {true, true};
  BackwardContext context(Ops(), needed);
  Tensor gradient = Vector({1, 2, 3, 4});
  ASSERT_TRUE(node_->Apply(context, absl::MakeSpan(&gradient, 1)).ok());
  ASSERT_TRUE(node_->Apply(context, absl::MakeSpan(&gradient, 1)).ok());
  node_->ReleaseSaved();
  EXPECT_THAT(node_->Apply(context, absl::MakeSpan(&gradient, 1)).status(),
              Fails(absl::StatusCode::kFailedPrecondition, "trying to backward through the graph a second time"));
  Tensor none;
  EXPECT_TRUE(node_->Apply(context, absl::MakeSpan(&none, 1)).ok()) << "undefined gradients pass without saved values";
}

}  // namespace
}  // namespace cotan::autograd
