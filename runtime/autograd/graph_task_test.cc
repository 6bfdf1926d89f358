// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/graph_task.h"

#include <memory>
#include <string>
#include <vector>

#include "runtime/autograd/copy_node.h"
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

class DependentInputsTest : public ::testing::Test {
 protected:
  DependentInputsTest() {
    first_.SetHistory(node_);
    second_.SetHistory(node_);
  }

  // Executes a task from `root`.
  static absl::Status Run(const Variable& root) {
    GraphTask task;
    return Run(root, task);
  }
  // Executes one that needs only the gradient of `requested`.
  static absl::Status Gradient(const Variable& root, const Variable& requested, bool is_required) {
    GraphTask task;
    task.RestrictToNeeded();
    is_required ? task.Require(*requested.GradientEdge()) : task.Capture(*requested.GradientEdge(), 0);
    return Run(root, task);
  }

  const std::shared_ptr<PairNode> node_ = std::make_shared<PairNode>();
  Variable first_ = Variable(Vector({1})), second_ = Variable(Vector({1}));

 private:
  static absl::Status Run(const Variable& root, GraphTask& task) {
    const Edge edge = *root.GradientEdge();
    task.AddRoot(edge.node, edge.input);
    return task.Execute([](GraphTask::Visit&) { return absl::OkStatus(); });
  }
};

TEST_F(DependentInputsTest, AGradientThatTheNodeItselfPassesOnIsRefused) {
  const Variable behind_first = Scale(first_, 2, "A"), behind_second = Scale(second_, 2, "B");
  for (const bool is_required : {false, true}) {
    EXPECT_THAT(Gradient(second_, first_, is_required), Fails(absl::StatusCode::kUnimplemented, "partial"));
    EXPECT_THAT(Gradient(behind_second, first_, is_required), Fails(absl::StatusCode::kUnimplemented, "partial"));
    EXPECT_TRUE(Gradient(first_, first_, is_required).ok());
    EXPECT_TRUE(Gradient(behind_first, first_, is_required).ok());
    EXPECT_TRUE(Gradient(behind_second, second_, is_required).ok());
  }
}

TEST_F(DependentInputsTest, AHookThatGetsAPartOfAGradientIsRefused) {
  const auto hook = [](const Tensor&) -> absl::StatusOr<Tensor> { return Tensor(); };
  const Variable behind_first = Scale(first_, 2, "A"), behind_second = Scale(second_, 2, "B");
  ASSERT_TRUE(second_.AddHook(hook).ok());
  EXPECT_TRUE(Run(behind_second).ok());
  const HookId id = *first_.AddHook(hook);
  const auto refused =
      Fails(absl::StatusCode::kUnimplemented, "partial. A hook or RetainGrad() asks for this gradient");
  EXPECT_THAT(Run(second_), refused);
  EXPECT_THAT(Run(behind_second), refused);
  EXPECT_TRUE(Run(behind_first).ok());
  ASSERT_TRUE(first_.RemoveHook(id));
  EXPECT_TRUE(Run(behind_second).ok());
  ASSERT_TRUE(first_.RetainGrad().ok());
  EXPECT_THAT(Run(behind_second), refused);
  EXPECT_TRUE(Run(behind_first).ok());
}

TEST_F(DependentInputsTest, ABackwardThatIsRefusedRetainsNoGradients) {
  EXPECT_THAT(Backward({second_}, {}, Ops(), {.inputs = std::vector<Variable>{first_}}),
              Fails(absl::StatusCode::kUnimplemented, "partial"));
  EXPECT_TRUE(Run(second_).ok());
}

TEST_F(DependentInputsTest, AWrittenValueIsCheckedAtTheNodeOfTheFunctionThatWroteIt) {
  const auto copy = std::make_shared<CopyNode>();
  copy->AddEdge({});
  copy->AddEdge({node_, 0});
  Variable written(Vector({1}));
  written.SetHistory(copy);
  for (const bool is_required : {false, true}) EXPECT_TRUE(Gradient(second_, written, is_required).ok());
  copy->SetWriterEdge(1);
  for (const bool is_required : {false, true}) {
    EXPECT_THAT(Gradient(second_, written, is_required), Fails(absl::StatusCode::kUnimplemented, "partial"));
    EXPECT_TRUE(Gradient(written, written, is_required).ok());
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
