// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/backward_run.h"

#include <functional>
#include <set>
#include <string>
#include <thread>

#include "runtime/autograd/grad_mode.h"
#include "runtime/autograd/saved_tensor_hooks.h"
#include "runtime/autograd/test_support.h"

namespace cotan::autograd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Returns x with a node that calls `run` in the backward.
Variable Calls(const Variable& x, std::function<absl::Status()> run) {
  const auto backward = [run](BackwardContext&, absl::Span<Tensor> incoming) -> absl::StatusOr<Gradients> {
    if (absl::Status status = run(); !status.ok()) return status;
    return Gradients{incoming[0]};
  };
  return (*ApplyFunction("Calls", {x}, {x.tensor()}, backward))[0];
}

TEST(BackwardRunTest, CallbacksRunOnceAfterAllNodesAndMayQueueOthers) {
  const Variable x = *Variable::Leaf(Vector({1}));
  std::string log;
  const Variable y = Calls(Scale(x, 2), [&] {
    return QueueCallback([&] {
      log += x.grad().defined() ? "A " : "early ";
      return QueueCallback([&] {
        log += "B ";
        return absl::OkStatus();
      });
    });
  });
  ASSERT_TRUE(Backward({y}, {}, Ops()).ok());
  EXPECT_EQ(log, "A B ");
}

TEST(BackwardRunTest, CallbacksOfARecursiveBackwardRunAtItsOwnEnd) {
  const Variable x = *Variable::Leaf(Vector({1}));
  const Variable z = *Variable::Leaf(Vector({1}));
  std::string log;
  const auto note = [&](const char* text) {
    return QueueCallback([&log, text] {
      log += text;
      return absl::OkStatus();
    });
  };
  const Variable y = Calls(x, [&]() -> absl::Status {
    if (absl::Status status = note("outer "); !status.ok()) return status;
    const Variable inner = Calls(z, [&] { return note("inner "); });
    const GradModeGuard with_grad(true);
    const Variable again = Calls(z, [&] { return note("inner "); });
    absl::Status status = Backward({again}, {}, Ops());
    log += "after ";
    return status;
  });
  ASSERT_TRUE(Backward({y}, {}, Ops()).ok());
  EXPECT_EQ(log, "inner after outer ");
}

TEST(BackwardRunTest, DeepBackwardsRunOnThreadsWithTheStateOfTheFirst) {
  const Variable x = *Variable::Leaf(Vector({1}));
  const SavedTensorHooksScope scope(
      {.pack = [](const Tensor&) -> absl::StatusOr<PackedData> { return absl::InternalError("nothing is saved"); },
       .unpack = [](const PackedData&) -> absl::StatusOr<Tensor> { return absl::InternalError("nothing is saved"); }});
  const SavedTensorHooks* const hooks = SavedTensorHooksScope::Current();
  ASSERT_NE(hooks, nullptr);
  std::set<std::thread::id> threads;
  int left = 150, callbacks = 0;
  std::function<absl::Status()> enter = [&]() -> absl::Status {
    threads.insert(std::this_thread::get_id());
    EXPECT_EQ(SavedTensorHooksScope::Current(), hooks);
    EXPECT_FALSE(GradMode::enabled());
    if (left-- == 0) return absl::OkStatus();
    const auto count = [&] {
      ++callbacks;
      return absl::OkStatus();
    };
    if (absl::Status status = QueueCallback(count); !status.ok()) return status;
    const GradModeGuard grad(true);
    return Backward({Calls(x, enter)}, {}, Ops());
  };
  EXPECT_TRUE(Backward({Calls(x, enter)}, {}, Ops()).ok());
  EXPECT_EQ(callbacks, 150);
  EXPECT_EQ(threads.size(), 3);
}

TEST(BackwardRunTest, CallbacksAreRefusedOutsideOfBackwards) {
  const absl::Status refused = QueueCallback([] { return absl::OkStatus(); });
  EXPECT_THAT(refused, Fails(absl::StatusCode::kFailedPrecondition, "only during backward"));
}

TEST(BackwardRunTest, AnErrorOfACallbackIsThatOfTheBackward) {
  const Variable x = *Variable::Leaf(Vector({1}));
  const Variable y = Calls(x, [] { return QueueCallback([] { return absl::AbortedError("stop"); }); });
  EXPECT_THAT(Backward({y}, {}, Ops()), Fails(absl::StatusCode::kAborted, "stop"));
}

TEST(BackwardRunTest, OnlyTheGivenInputsAccumulate) {
  const Variable x = *Variable::Leaf(Vector({1}));
  const Variable y = *Variable::Leaf(Vector({1}));
  bool ran = false;
  const Variable a = Scale(x, 2);
  const Variable b = Calls(y, [&] {
    ran = true;
    return absl::OkStatus();
  });
  ASSERT_TRUE(Backward({a, b}, {}, Ops(), {.inputs = {{x}}}).ok());
  EXPECT_THAT(ToVector(x.grad()), ElementsAre(2));
  EXPECT_FALSE(y.grad().defined());
  EXPECT_FALSE(ran);
}

TEST(BackwardRunTest, ANonLeafInputAccumulatesToo) {
  const Variable x = *Variable::Leaf(Vector({1}));
  const Variable a = Scale(x, 2);
  const Variable b = Scale(a, 3);
  ASSERT_TRUE(Backward({b}, {}, Ops(), {.inputs = {{a, x}}}).ok());
  EXPECT_THAT(ToVector(a.grad()), ElementsAre(3));
  EXPECT_THAT(ToVector(x.grad()), ElementsAre(6));
}

TEST(BackwardRunTest, NoInputsAreRefused) {
  const Variable x = *Variable::Leaf(Vector({1}));
  const absl::Status refused = Backward(
      {Scale(x, 2)}, {}, Ops(), {.retain_graph = false, .create_graph = false, .inputs = std::vector<Variable>()});
  EXPECT_THAT(refused.message(), HasSubstr("cannot be empty"));
}

TEST(BackwardRunTest, TheRunIsCurrentOnlyWhileItRuns) {
  const Variable x = *Variable::Leaf(Vector({1}));
  uint64_t id = 0;
  const Variable y = Calls(x, [&] {
    id = BackwardRun::Current()->id();
    return absl::OkStatus();
  });
  ASSERT_TRUE(Backward({y}, {}, Ops()).ok());
  EXPECT_NE(id, 0);
  EXPECT_EQ(BackwardRun::Current(), nullptr);
}

}  // namespace
}  // namespace cotan::autograd
