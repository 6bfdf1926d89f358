// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/hooks.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/autograd/test_support.h"

namespace cotan::autograd {
namespace {

TEST(HooksTest, RunInOrderAndReplaceGradients) {
  Hooks hooks;
  std::string log;
  hooks.AddRetainHook(0, [&](TensorOps&, const Variable& gradient) {
    log += absl::StrCat("retain ", ToVector(gradient)[0]);
    return absl::OkStatus();
  });
  hooks.AddGradientHook(0, [&](const Tensor&) -> absl::StatusOr<Tensor> {
    log += "first ";
    return Vector({7});
  });
  hooks.AddGradientHook(0, [&](const Tensor& gradient) -> absl::StatusOr<Tensor> {
    log += absl::StrCat("second ", ToVector(gradient)[0], " ");
    return Tensor();  // keeps the gradient
  });
  hooks.AddGradientHook(1, [&](const Tensor& gradient) -> absl::StatusOr<Tensor> {
    log += gradient.defined() ? "defined " : "undefined ";
    return Tensor();
  });
  Tensor gradients[] = {Vector({1}), Tensor()};
  ASSERT_TRUE(hooks.RunGradientHooks(Ops(), absl::MakeSpan(gradients)).ok());
  EXPECT_EQ(ToVector(gradients[0])[0], 7);
  EXPECT_EQ(log, "first second 7 undefined retain 7");
}

TEST(HooksTest, TellWhichGradientsTheyGet) {
  Hooks hooks;
  hooks.AddPreHook([](absl::Span<Tensor>) { return absl::OkStatus(); });
  EXPECT_FALSE(hooks.HasGradientHooksOf(0));
  const HookId id = hooks.AddGradientHook(0, [](const Tensor&) -> absl::StatusOr<Tensor> { return Tensor(); });
  hooks.AddRetainHook(2, [](TensorOps&, const Variable&) { return absl::OkStatus(); });
  EXPECT_TRUE(hooks.HasGradientHooksOf(0));
  EXPECT_FALSE(hooks.HasGradientHooksOf(1));
  EXPECT_TRUE(hooks.HasGradientHooksOf(2));
  ASSERT_TRUE(hooks.Remove(id));
  EXPECT_FALSE(hooks.HasGradientHooksOf(0));
}

TEST(HooksTest, AReplacementHasTheTypeOfTheGradient) {
  Hooks hooks;
  Tensor replacement;
  hooks.AddGradientHook(0, [&](const Tensor&) -> absl::StatusOr<Tensor> { return replacement; });
  Hooks pre;
  pre.AddPreHook([&](absl::Span<Tensor> incoming) {
    incoming[0] = replacement;
    return absl::OkStatus();
  });
  const auto expect_refused = [&](Tensor gradient, const std::string& text) {
    for (const bool is_pre : {false, true}) {
      Tensor gradients[] = {gradient};
      const absl::Status refused = is_pre ? pre.RunPreHooks(absl::MakeSpan(gradients))
                                          : hooks.RunGradientHooks(Ops(), absl::MakeSpan(gradients));
      EXPECT_THAT(refused, Fails(absl::StatusCode::kInvalidArgument, text));
    }
  };
  replacement = Vector({1});
  expect_refused(Vector({1, 2}), "replaced the gradient f32[2] by f32[1]");
  expect_refused(Tensor(), "a hook returned f32[1] where there is no gradient");
  replacement = *Tensor::From<double>({1, 2}, {2});
  expect_refused(Vector({1, 2}), "replaced the gradient f32[2] by f64[2]");
}

TEST(HooksTest, CanBeRemovedByTheirNumber) {
  Hooks hooks;
  int runs = 0;
  const HookId id = hooks.AddPreHook([&](absl::Span<Tensor>) {
    ++runs;
    return absl::OkStatus();
  });
  EXPECT_NE(id, hooks.AddPostHook([](Gradients&, absl::Span<const Tensor>) { return absl::OkStatus(); }));
  EXPECT_TRUE(hooks.has_post_hooks());
  ASSERT_TRUE(hooks.RunPreHooks({}).ok());
  EXPECT_TRUE(hooks.Remove(id));
  EXPECT_FALSE(hooks.Remove(id));
  ASSERT_TRUE(hooks.RunPreHooks({}).ok());
  EXPECT_EQ(runs, 1);
}

TEST(HooksTest, TheFirstErrorStopsThem) {
  Hooks hooks;
  hooks.AddPreHook([](absl::Span<Tensor>) { return absl::AbortedError("no"); });
  hooks.AddPreHook([](absl::Span<Tensor>) -> absl::Status {
    ADD_FAILURE() << "runs after an error";
    return absl::OkStatus();
  });
  EXPECT_THAT(hooks.RunPreHooks({}), Fails(absl::StatusCode::kAborted, "no"));
}

TEST(HooksTest, RetainHooksMoveToAnotherNode) {
  Hooks from;
  Hooks to;
  int runs = 0;
  from.AddRetainHook(1, [&](TensorOps&, const Variable&) {
    ++runs;
    return absl::OkStatus();
  });
  from.MoveRetainHooks(0, to, 0);  // no retain hook: nothing moves
  from.MoveRetainHooks(1, to, 0);
  Tensor gradients[] = {Vector({1}), Vector({1})};
  ASSERT_TRUE(from.RunGradientHooks(Ops(), absl::MakeSpan(gradients)).ok());
  EXPECT_EQ(runs, 0);
  ASSERT_TRUE(to.RunGradientHooks(Ops(), absl::MakeSpan(gradients)).ok());
  EXPECT_EQ(runs, 1);
}

TEST(HooksTest, AHookMayRemoveALaterOneAndItself) {
  Hooks hooks;
  std::string log;
  HookId self = 0;
  HookId later = 0;
  self = hooks.AddPreHook([&](absl::Span<Tensor>) {
    log += "first ";
    EXPECT_EQ(hooks.Remove(later), log == "first ");
    hooks.Remove(self);
    return absl::OkStatus();
  });
  later = hooks.AddPreHook([&](absl::Span<Tensor>) {
    log += "later ";
    return absl::OkStatus();
  });
  Tensor gradients[] = {Vector({1})};
  ASSERT_TRUE(hooks.RunPreHooks(absl::MakeSpan(gradients)).ok());
  EXPECT_EQ(log, "first later ");  // removed hooks run in this backward, but not in the next
  ASSERT_TRUE(hooks.RunPreHooks(absl::MakeSpan(gradients)).ok());
  EXPECT_EQ(log, "first later ");
}

}  // namespace
}  // namespace cotan::autograd
