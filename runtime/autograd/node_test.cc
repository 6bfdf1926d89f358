// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/node.h"

#include <memory>

#include "runtime/autograd/test_support.h"

namespace cotan::autograd {
namespace {

// Passes gradients on, and counts its instances.
class PassNode final : public Node {
 public:
  explicit PassNode(int& alive) : alive_(alive) { ++alive_; }
  ~PassNode() override { --alive_; }
  absl::string_view name() const override { return "Pass"; }
  absl::StatusOr<Gradients> Apply(BackwardContext&, absl::Span<Tensor> incoming) override {
    return Gradients{incoming[0]};
  }

 private:
  int& alive_;
};

TEST(NodeTest, LaterNodesHaveHigherNumbers) {
  int alive = 0;
  const auto first = std::make_shared<PassNode>(alive);
  const auto second = std::make_shared<PassNode>(alive);
  EXPECT_LT(first->sequence(), second->sequence());
}

TEST(NodeTest, LongChainsAreDestroyedWithoutRecursion) {
  int alive = 0;
  std::shared_ptr<Node> last;
  for (int i = 0; i < 1'000'000; ++i) {
    auto node = std::make_shared<PassNode>(alive);
    node->AddEdge({std::move(last), 0});
    last = std::move(node);
  }
  EXPECT_EQ(alive, 1'000'000);
  last = nullptr;
  EXPECT_EQ(alive, 0);
}

TEST(NodeTest, SharedNodesOutliveOneOwner) {
  int alive = 0;
  const std::shared_ptr<Node> shared = std::make_shared<PassNode>(alive);
  auto owner = std::make_shared<PassNode>(alive);
  owner->AddEdge({shared, 0});
  owner = nullptr;
  EXPECT_EQ(alive, 1);
}

TEST(NodeTest, EdgesLeadToLeavesAndNowhere) {
  int alive = 0;
  const Variable leaf = *Variable::Leaf(Vector({1}));
  const Variable other(Vector({1}));
  PassNode node(alive);
  ASSERT_TRUE(node.AddEdgesTo({leaf, other, Variable()}).ok());
  ASSERT_EQ(node.num_edges(), 3);
  EXPECT_EQ(node.edge(0).node->name(), "AccumulateGrad");
  EXPECT_EQ(node.edge(0).node, leaf.GradientEdge()->node);
  EXPECT_FALSE(node.edge(1).defined());
  EXPECT_FALSE(node.edge(2).defined());
}

TEST(NodeTest, TypesArePrinted) { EXPECT_EQ(GradientType::Of(Count({2, 3})).ToString(), "f32[2,3]"); }

}  // namespace
}  // namespace cotan::autograd
