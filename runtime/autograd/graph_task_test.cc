// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/graph_task.h"

#include <memory>
#include <string>
#include <vector>

#include "runtime/autograd/test_support.h"

namespace cotan::autograd {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> OrderOf(GraphTask& task) {
  std::vector<std::string> names;
  EXPECT_TRUE(task.Execute([&](GraphTask::Visit& visit) {
                    if (visit.awaited()) names.emplace_back(visit.node->name());
                    return absl::OkStatus();
                  })
                  .ok());
  return names;
}

TEST(GraphTaskTest, TheNewestReadyNodeComesFirstAndAReadyLeafAtOnce) {
  const Variable x = *Variable::Leaf(Vector({1}));
  const Variable y = *Variable::Leaf(Vector({1}));
  const Variable a = Scale(x, 2, "A");
  const Variable b = Scale(a, 2, "B");
  const Variable c = Scale(y, 2, "C");
  GraphTask task;
  task.AddRoot(*b.grad_fn());
  task.AddRoot(*c.grad_fn());
  EXPECT_THAT(OrderOf(task), ElementsAre("C", "AccumulateGrad", "B", "A", "AccumulateGrad"));
}

TEST(GraphTaskTest, ARestrictedTaskRunsOnlyWhatLeadsToACapture) {
  const Variable x = *Variable::Leaf(Vector({1}));
  const Variable y = *Variable::Leaf(Vector({1}));
  const Variable a = Scale(x, 2, "A");
  const Variable c = Scale(y, 2, "C");
  GraphTask task;
  task.AddRoot(*a.grad_fn());
  task.AddRoot(*c.grad_fn());
  task.RestrictToNeeded();
  task.Capture(*x.GradientEdge(), 0);
  const Variable unreached = *Variable::Leaf(Vector({1}));
  task.Capture(*unreached.GradientEdge(), 1);
  EXPECT_THAT(OrderOf(task), ElementsAre("A", "AccumulateGrad"));
  EXPECT_FALSE(task.WillRun(unreached.GradientEdge()->node.get()));
  EXPECT_TRUE(task.WillRun(a.grad_fn()->get()));
  EXPECT_FALSE(task.WillRun(c.grad_fn()->get()));
  EXPECT_FALSE(task.WillRun(nullptr));
}

// The value of the second input is computed from that of the first one.
class PairNode final : public Node {
 public:
  absl::string_view name() const override { return "Pair"; }
  absl::StatusOr<Gradients> Apply(BackwardContext&, absl::Span<Tensor>) override { return Gradients(); }
  bool HasDependentInputs() const override { return true; }
  absl::Status CheckGradientOf(int requested, int arriving) const override {
    return requested == 0 && arriving == 1 ? absl::UnimplementedError("partial") : absl::OkStatus();
  }
};

TEST(GraphTaskTest, AGradientThatTheNodeItselfPassesOnIsRefused) {
  const auto node = std::make_shared<PairNode>();
  Variable first(Vector({1})), second(Vector({1}));
  first.SetHistory(node);
  second.SetHistory(node);
  const Variable behind_first = Scale(first, 2, "A"), behind_second = Scale(second, 2, "B");
  const auto gradient = [](const Variable& root, const Variable& requested, bool is_required) {
    GraphTask task;
    const Edge edge = *root.GradientEdge();
    task.AddRoot(edge.node, edge.input);
    task.RestrictToNeeded();
    is_required ? task.Require(*requested.GradientEdge()) : task.Capture(*requested.GradientEdge(), 0);
    return task.Execute([](GraphTask::Visit&) { return absl::OkStatus(); });
  };
  for (const bool is_required : {false, true}) {
    EXPECT_THAT(gradient(second, first, is_required), Fails(absl::StatusCode::kUnimplemented, "partial"));
    EXPECT_THAT(gradient(behind_second, first, is_required), Fails(absl::StatusCode::kUnimplemented, "partial"));
    EXPECT_TRUE(gradient(first, first, is_required).ok());
    EXPECT_TRUE(gradient(behind_first, first, is_required).ok());
    EXPECT_TRUE(gradient(behind_second, second, is_required).ok());
  }
}

TEST(GraphTaskTest, ARequiredNodeRunsWithoutBeingCaptured) {
  const Variable x = *Variable::Leaf(Vector({1}));
  const Variable a = Scale(x, 2, "A");
  const Variable b = Scale(a, 2, "B");
  GraphTask task;
  task.AddRoot(*b.grad_fn());
  task.RestrictToNeeded();
  task.Require(*a.GradientEdge());
  EXPECT_THAT(OrderOf(task), ElementsAre("B", "A"));
}

}  // namespace
}  // namespace cotan::autograd
