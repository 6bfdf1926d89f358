// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/graph_task.h"

#include <string>

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
  EXPECT_THAT(OrderOf(task), ElementsAre("A", "AccumulateGrad"));
  EXPECT_TRUE(task.WillRun(a.grad_fn()->get()));
  EXPECT_FALSE(task.WillRun(c.grad_fn()->get()));
  EXPECT_FALSE(task.WillRun(nullptr));
}

TEST(GraphTaskTest, ARequiredNodeRunsWithoutBeingCaptured) {
  const Variable x = *Variable::Leaf(Vector({1}));
  const Variable a = Scale(x, 2, "A");
  const Variable b = Scale(a, 2, "B");
  GraphTask task;
  task.AddRoot(*b.grad_fn());
  task.RestrictToNeeded();
  task.Require(*a.grad_fn());
  EXPECT_THAT(OrderOf(task), ElementsAre("B", "A"));
}

}  // namespace
}  // namespace cotan::autograd
