// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/multi_grad_hook.h"

#include <string>

#include "runtime/autograd/test_support.h"

namespace cotan::autograd {
namespace {

// Returns a + b with a recorded node.
Variable Sum(const Variable& a, const Variable& b) {
  const auto backward = [](BackwardContext&, absl::Span<Tensor> incoming) -> absl::StatusOr<Gradients> {
    return Gradients{incoming[0], incoming[0]};
  };
  return (*ApplyFunction("Sum", {a, b}, {*Ops().Add(a.tensor(), b.tensor())}, backward))[0];
}

class MultiGradHookTest : public ::testing::Test {
 protected:
  // Notes which gradients are defined: "0110 ".
  MultiGradHook Note() {
    return [this](const Gradients& gradients) {
      for (const Tensor& gradient : gradients) log_ += gradient.defined() ? '1' : '0';
      log_ += ' ';
      return absl::OkStatus();
    };
  }

  std::vector<Variable> t_ = {*Variable::Leaf(Vector({1})), *Variable::Leaf(Vector({2})), *Variable::Leaf(Vector({3})),
                              *Variable::Leaf(Vector({4}))};
  std::string log_;
};

TEST_F(MultiGradHookTest, RunsOnceWithTheGradientsOfTheBackward) {
  ASSERT_TRUE(AddMultiGradHook(t_, MultiGradMode::kAll, Note()).ok());
  const Variable out = Sum(t_[1], t_[2]);
  ASSERT_TRUE(Backward({out}, {}, Ops(), {.retain_graph = true}).ok());
  EXPECT_EQ(log_, "0110 ");
  ASSERT_TRUE(Backward({out}, {}, Ops(), {.retain_graph = true, .inputs = {{t_[2]}}}).ok());
  EXPECT_EQ(log_, "0110 0010 ");
}

TEST_F(MultiGradHookTest, DoesNotRunIfNoVariableIsReached) {
  ASSERT_TRUE(AddMultiGradHook({t_[0], t_[3]}, MultiGradMode::kAll, Note()).ok());
  ASSERT_TRUE(Backward({Sum(t_[1], t_[2])}, {}, Ops()).ok());
  EXPECT_EQ(log_, "");
}

TEST_F(MultiGradHookTest, AnyRunsWithTheFirstGradientOnly) {
  ASSERT_TRUE(AddMultiGradHook({t_[1], t_[2]}, MultiGradMode::kAny, Note()).ok());
  ASSERT_TRUE(Backward({Sum(t_[1], t_[2])}, {}, Ops()).ok());
  EXPECT_EQ(log_.size(), 3);
  EXPECT_EQ(log_.find("11"), std::string::npos);
}

// A node that is reached may give no gradient.
TEST_F(MultiGradHookTest, RunsThoughAGradientIsUndefined) {
  const auto first_only = [](BackwardContext&, absl::Span<Tensor> incoming) -> absl::StatusOr<Gradients> {
    return Gradients{incoming[0], Tensor()};
  };
  const Variable out = (*ApplyFunction("First", {t_[1], t_[2]}, {t_[1].tensor()}, first_only))[0];
  ASSERT_TRUE(AddMultiGradHook(t_, MultiGradMode::kAll, Note()).ok());
  ASSERT_TRUE(AddMultiGradHook({t_[2], t_[1]}, MultiGradMode::kAny, Note()).ok());
  ASSERT_TRUE(Backward({out}, {}, Ops()).ok());
  EXPECT_TRUE(log_ == "0100 01 " || log_ == "01 0100 ") << log_;
}

TEST_F(MultiGradHookTest, ARemovedHookDoesNotRun) {
  auto handle = AddMultiGradHook({t_[1], t_[2]}, MultiGradMode::kAll, Note());
  ASSERT_TRUE(handle.ok());
  handle->Remove();
  ASSERT_TRUE(Backward({Sum(t_[1], t_[2])}, {}, Ops()).ok());
  EXPECT_EQ(log_, "");
}

TEST_F(MultiGradHookTest, WorksForComputedVariables) {
  const Variable a = Scale(t_[0], 2);
  const Variable b = Scale(t_[1], 3);
  ASSERT_TRUE(AddMultiGradHook({a, b}, MultiGradMode::kAll, Note()).ok());
  ASSERT_TRUE(Backward({Sum(a, b)}, {}, Ops()).ok());
  EXPECT_EQ(log_, "11 ");
}

TEST_F(MultiGradHookTest, AnErrorIsThatOfTheBackward) {
  const auto fail = [](const Gradients&) { return absl::AbortedError("stop"); };
  ASSERT_TRUE(AddMultiGradHook({t_[1], t_[2]}, MultiGradMode::kAll, fail).ok());
  EXPECT_THAT(Backward({Sum(t_[1], t_[2])}, {}, Ops()), Fails(absl::StatusCode::kAborted, "stop"));
}

TEST_F(MultiGradHookTest, VariablesWithoutGradientAreRefused) {
  const Variable constant(Vector({1}));
  EXPECT_THAT(AddMultiGradHook({t_[0], constant}, MultiGradMode::kAll, Note()).status(),
              Fails(absl::StatusCode::kFailedPrecondition, "does not require grad"));
}

}  // namespace
}  // namespace cotan::autograd
