// SPDX-License-Identifier: Apache-2.0

// Backwards on several threads and inside of one another, through compiled functions, beside LibTorch eager.
// The rows C10 of cases.txt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/autograd/engine.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/autograd/multi_grad_hook.h"
#include "runtime/autograd/node.h"
#include "runtime/compiled_autograd/compiled_autograd.h"
#include "testing/autograd/walked_and_captured.h"
#include "testing/higher_order/compiled.h"
#include "testing/higher_order/identity_node.h"

namespace cotan::testing {
namespace {

using ::testing::HasSubstr;

Compiled Load(const aot::CompiledModel& model) {
  auto compiled = Compiled::Load(model);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *std::move(compiled);
}

aot::CompiledModel Compile(const aot::TensorFunction& function, const Tensors& examples) {
  auto model = aot::CompileFunction(function, examples, {});
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

std::vector<Tensor> OnesOf(const Variable& variable) {
  const std::vector<int64_t> sizes(variable.sizes().begin(), variable.sizes().end());
  return {ToCotan(torch::ones(sizes, torch::kDouble))};
}

void OnThreads(int count, const std::function<void(int)>& run) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(run, i);
  for (std::thread& thread : threads) thread.join();
}

Tensors Parabola(const Tensors& in) { return {(in[0] + 3) * (in[0] + 4) * 0.5}; }

TEST(ThreadCasesTest, EachThreadRunsAGraphOfItsOwn) {
  const aot::CompiledModel model = Compile(Parabola, {Leaf(0, {5, 5})});
  Tensors gradients(10), expected(10);
  OnThreads(10, [&](int i) {
    const at::Tensor x = Leaf(i, {5, 5});
    Compiled f = Load(model);
    const Variable ours = ToVariable(x);
    const Variables results = f({ours});
    EXPECT_TRUE(autograd::Backward(results, OnesOf(results[0]), f.ops()).ok());
    gradients[static_cast<size_t>(i)] = ToTorch(ours.grad().tensor());
    Parabola({x})[0].backward(torch::ones_like(x));
    expected[static_cast<size_t>(i)] = x.grad();
    ExpectNear(x.grad(), x.detach() + 3.5);
  });
  for (size_t i = 0; i < gradients.size(); ++i) ExpectNear(gradients[i], expected[i]);
}

TEST(ThreadCasesTest, EachThreadCapturesItsOwnGraphs) {
  const aot::CompiledModel model = Compile(Parabola, {Leaf(0, {5, 5})});
  OnThreads(6, [&](int i) {
    Compiled f = Load(model);
    const CompiledAutograd scope;
    for (int round = 0; round < 20; ++round) {
      const Variable x = ToVariable(Leaf(20 * i + round, {5, 5}));
      const Variables results = f({x});
      EXPECT_TRUE(autograd::Backward(results, OnesOf(results[0]), f.ops()).ok());
      ExpectNear(ToTorch(x.grad().tensor()), Constant(20 * i + round, {5, 5}) + 3.5);
    }
    EXPECT_EQ(CompiledAutograd::Stats().captures, 1);
    EXPECT_EQ(CompiledAutograd::Stats().hits, 19);
  });
}

// A backward through f, with the expected gradient; returns how many backwards scopes of this thread have run.
int64_t RunOnce(
    Compiled& f, const std::function<absl::Status()>& inner = [] { return absl::OkStatus(); }) {
  const Variable x = ToVariable(Leaf(0, {5, 5}));
  const Variables results = f({WithInner(x, inner)});
  const absl::Status ran = autograd::Backward(results, OnesOf(results[0]), f.ops());
  EXPECT_TRUE(ran.ok()) << ran;
  ExpectNear(ToTorch(x.grad().tensor()), Constant(0, {5, 5}) + 3.5);
  return CompiledAutograd::Stats().backwards;
}

void ExpectRefused(const absl::Status& status, const std::string& part) {
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr(part));
}

TEST(ThreadCasesTest, AnOuterScopeThatIsClosedFirstIsRefusedAndBothStayOpen) {
  Compiled f = Load(Compile(Parabola, {Leaf(0, {5, 5})}));
  ASSERT_TRUE(CompiledAutograd::Reset().ok());
  CompiledAutograd outer;
  CompiledAutograd inner(CompiledAutograd::kDisabled);
  ExpectRefused(outer.Close(), "nested contexts must return before their parent");
  EXPECT_EQ(RunOnce(f), 0);  // the inner scope walks
  EXPECT_TRUE(inner.Close().ok());
  EXPECT_EQ(RunOnce(f), 1);
  EXPECT_TRUE(outer.Close().ok());
  EXPECT_EQ(RunOnce(f), 1);
}

TEST(ThreadCasesTest, AScopeCapturesAndClosesOnItsOwnThread) {
  Compiled f = Load(Compile(Parabola, {Leaf(0, {5, 5})}));
  ASSERT_TRUE(CompiledAutograd::Reset().ok());
  CompiledAutograd scope;
  OnThreads(1, [&](int) {
    ExpectRefused(scope.Close(), "belongs to another thread");
    EXPECT_EQ(RunOnce(f), 0);
  });
  EXPECT_EQ(RunOnce(f), 1);
}

TEST(ThreadCasesTest, ARunningBackwardRefusesResetAndTheEndOfItsScope) {
  Compiled f = Load(Compile(Parabola, {Leaf(0, {5, 5})}));
  ASSERT_TRUE(CompiledAutograd::Reset().ok());
  CompiledAutograd scope;
  const auto inner = [&scope] {
    ExpectRefused(CompiledAutograd::Reset(), "a captured backward is running");
    ExpectRefused(scope.Close(), "a captured backward is running");
    return absl::OkStatus();
  };
  for (const int backwards : {1, 2}) EXPECT_EQ(RunOnce(f, inner), backwards);
  EXPECT_EQ(CompiledAutograd::Stats().hits, 1);  // nothing was forgotten
  EXPECT_TRUE(CompiledAutograd::Reset().ok());
  EXPECT_EQ(RunOnce(f), 0);
}

TEST(ThreadCasesTest, ALeafOfSeveralThreadsGetsTheSum) {
  const aot::CompiledModel model = Compile(Parabola, {Leaf(0, {5, 5})});
  const at::Tensor x = torch::ones({5, 5}, torch::kDouble).set_requires_grad(true);
  OnThreads(10, [&x](int) { Parabola({x})[0].backward(torch::ones_like(x)); });
  ExpectNear(x.grad(), torch::full({5, 5}, 45, torch::kDouble));
  const at::Tensor alone = torch::full({5, 5}, 4.5, torch::kDouble);

  const Variable ours = *Variable::Leaf(ToCotan(torch::ones({5, 5})));
  const auto on_ten_threads = [&](int steps, bool accumulates) {
    std::vector<std::unique_ptr<Compiled>> functions(10);
    for (auto& f : functions) f = std::make_unique<Compiled>(Load(model));
    OnThreads(10, [&](int i) {
      Compiled& f = *functions[static_cast<size_t>(i)];
      for (int step = 0; step < steps; ++step) {
        const Variables results = f({ours});
        if (accumulates) {
          EXPECT_TRUE(autograd::Backward(results, OnesOf(results[0]), f.ops()).ok());
          continue;
        }
        const auto gradients = autograd::Grad(results, {ours}, OnesOf(results[0]), f.ops());
        ASSERT_TRUE(gradients.ok()) << gradients.status();
        ExpectNear(ToTorch((*gradients)[0]), alone);
      }
    });
  };
  on_ten_threads(20, /*accumulates=*/false);
  EXPECT_FALSE(ours.grad().defined());
  on_ten_threads(2000, /*accumulates=*/true);  // so many that sums without a lock would lose some
  ExpectNear(ToTorch(ours.grad().tensor()), 2000 * x.grad());
}

// Runs on a thread with a stack of 2 MiB.
void OnSmallStack(std::function<void()> run) {
  pthread_attr_t attributes;
  pthread_t thread;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, size_t{2} << 20), 0);
  const auto start = [](void* argument) -> void* {
    (*static_cast<std::function<void()>*>(argument))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, start, &run), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

TEST(ThreadCasesTest, BackwardsInsideOfOneAnotherDoNotExhaustTheStack) {
  Compiled f = Load(Compile(Parabola, {Leaf(0, {1})}));
  OnSmallStack([&f] {
    std::set<std::thread::id> threads[2];
    for (const int depth : {2000, 200}) {
      const CompiledAutograd scope;  // captures the first backward
      int left = depth;
      std::function<absl::Status()> enter = [&] {
        EXPECT_FALSE(GradMode::enabled() && left < depth);
        threads[depth == 200].insert(std::this_thread::get_id());
        if (left-- == 0) return absl::OkStatus();
        const GradModeGuard grad(true);
        const Variable x = ToVariable(Leaf(0, {1}));
        const absl::Status ran = autograd::Backward(f({WithInner(x, enter)}), {}, f.ops());
        ExpectNear(ToTorch(x.grad().tensor()), Constant(0, {1}) + 3.5);
        return ran;
      };
      const absl::Status ran = enter();
      ASSERT_TRUE(ran.ok()) << ran;
      EXPECT_EQ(left, -1);
    }
    EXPECT_EQ(threads[0].size(), 1 + 1999 / 60);
    EXPECT_EQ(threads[1].size(), 1 + 199 / 60);
    EXPECT_TRUE(std::includes(threads[0].begin(), threads[0].end(), threads[1].begin(), threads[1].end()));
  });
}

// t * t + t: applied twice, the gradient is 4 t^3 + 6 t^2 + 4 t + 1.
Tensors SquarePlus(const Tensors& in) { return {in[0] * in[0] + in[0]}; }

// A graph belongs to one thread at a time: the threads take turns.
TEST(ThreadCasesTest, ThreadsThatTakeTurnsShareTheMiddleOfAGraph) {
  Compiled f = Load(Compile(SquarePlus, {Leaf(0, {3, 3})}));
  for (const bool retains : {false, true}) {
    const at::Tensor x = Leaf(0, {3, 3});
    const at::Tensor eager_middle = SquarePlus({x})[0];
    for (int i = 0; i < (retains ? 5 : 1); ++i) {
      SquarePlus({eager_middle})[0].backward(torch::ones_like(x), retains);
    }
    const at::Tensor t = x.detach();
    ExpectNear(x.grad(), (retains ? 5 : 1) * (4 * t.pow(3) + 6 * t.pow(2) + 4 * t + 1));

    const Variable ours = ToVariable(Leaf(0, {3, 3}));
    const Variables middle = f({ours});
    std::mutex turn;
    int failures = 0;
    OnThreads(5, [&](int) {
      const std::lock_guard lock(turn);
      const Variables end = f(middle);
      const absl::Status ran = autograd::Backward(end, OnesOf(end[0]), f.ops(), {.retain_graph = retains});
      if (ran.ok()) return;
      ++failures;
      EXPECT_THAT(std::string(ran.message()), HasSubstr("retain_graph"));
    });
    EXPECT_EQ(failures, retains ? 0 : 4);
    ExpectNear(ToTorch(ours.grad().tensor()), x.grad());
  }
}

// An identity that notes its name in its backward, and then runs `inner`.
struct EagerNoted : torch::autograd::Function<EagerNoted> {
  struct Note {
    std::string name;
    std::vector<std::string>* order;
    std::function<void()> inner = nullptr;
  };
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const Note* note) {
    context->saved_data["note"] = reinterpret_cast<int64_t>(note);
    return x.clone();
  }
  static Tensors backward(torch::autograd::AutogradContext* context, const Tensors& incoming) {
    const auto* note = reinterpret_cast<const Note*>(context->saved_data["note"].toInt());
    note->order->push_back(note->name);
    if (note->inner != nullptr) note->inner();
    return {incoming[0], at::Tensor()};
  }
};

TEST(ThreadCasesTest, BackwardsInsideOfANodeRunBeforeOlderNodesThatAreReady) {
  const aot::TensorFunction product = [](const Tensors& in) -> Tensors { return {in[0] * in[1]}; };
  std::vector<std::string> eager_order, order;
  int left = 9;
  EagerNoted::Note again = {"R", &eager_order};
  again.inner = [&] {
    if (left-- == 0) return;
    const at::AutoGradMode grad(true);
    EagerNoted::apply(Leaf(0, {}), &again).backward();
  };
  const EagerNoted::Note once = {"A", &eager_order};
  const at::Tensor a = EagerNoted::apply(Leaf(1, {}), &once), r = EagerNoted::apply(Leaf(2, {}), &again);
  product({a, r})[0].backward();
  ASSERT_EQ(eager_order.size(), 11);
  EXPECT_EQ(eager_order.back(), "A");

  Compiled f = Load(Compile(product, {Leaf(0, {}), Leaf(0, {})}));
  left = 9;
  std::function<absl::Status()> enter = [&] {
    order.push_back("R");
    if (left-- == 0) return absl::OkStatus();
    const GradModeGuard grad(true);
    return autograd::Backward({WithInner(ToVariable(Leaf(0, {})), enter)}, {}, f.ops());
  };
  const auto note = [&] {
    order.push_back("A");
    return absl::OkStatus();
  };
  const Variable x = WithInner(ToVariable(Leaf(1, {})), note);
  const Variable y = WithInner(ToVariable(Leaf(2, {})), enter);
  const absl::Status ran = autograd::Backward(f({x, y}), {}, f.ops());
  ASSERT_TRUE(ran.ok()) << ran;
  EXPECT_EQ(order, eager_order);
}

TEST(ThreadCasesTest, ANodeThatIsReadyWhenAnotherFailsIsFreed) {
  const aot::TensorFunction product = [](const Tensors& in) -> Tensors { return {in[0] * in[1]}; };
  Compiled f = Load(Compile(product, {Leaf(0, {2}), Leaf(0, {2})}));
  bool has_run = false;
  std::weak_ptr<autograd::Node> waiting;
  {
    const auto run = [&has_run] {
      has_run = true;
      return absl::OkStatus();
    };
    const Variable x = WithInner(ToVariable(Leaf(0, {2})), run);
    const Variable y = WithInner(ToVariable(Leaf(1, {2})), [] { return absl::AbortedError("no luck"); });
    waiting = *x.grad_fn();
    const Variables results = f({x, y});
    const absl::Status ran = autograd::Backward(results, OnesOf(results[0]), f.ops());
    EXPECT_EQ(ran.code(), absl::StatusCode::kAborted);
    EXPECT_THAT(std::string(ran.message()), HasSubstr("no luck"));
    EXPECT_FALSE(has_run);
    EXPECT_FALSE(waiting.expired());
  }
  EXPECT_TRUE(waiting.expired());
}

TEST(ThreadCasesTest, AHookKnowsWhetherTheGraphIsKept) {
  std::vector<bool> eager_kept, kept;
  const at::Tensor x = Leaf(0, {2}), h = SquarePlus({x})[0];
  h.register_hook(
      [&](const at::Tensor&) { eager_kept.push_back(torch::autograd::get_current_graph_task_keep_graph()); });
  const at::Tensor y = SquarePlus({h})[0];
  y.backward(torch::ones({2}, torch::kDouble), /*retain_graph=*/true);
  y.backward(torch::ones({2}, torch::kDouble));

  Compiled f = Load(Compile(SquarePlus, {Leaf(0, {2})}));
  Variables middle = f({ToVariable(Leaf(0, {2}))});
  const auto hook = [&kept](const Tensor& gradient) -> absl::StatusOr<Tensor> {
    const absl::StatusOr<bool> retains = autograd::RetainsGraph();
    if (!retains.ok()) return retains.status();
    kept.push_back(*retains);
    return gradient;
  };
  ASSERT_TRUE(middle[0].AddHook(hook).ok());
  const Variables end = f(middle);
  ASSERT_TRUE(autograd::Backward(end, OnesOf(end[0]), f.ops(), {.retain_graph = true}).ok());
  ASSERT_TRUE(autograd::Backward(end, OnesOf(end[0]), f.ops()).ok());
  EXPECT_EQ(kept, (std::vector<bool>{true, false}));
  EXPECT_EQ(eager_kept, kept);
  EXPECT_EQ(autograd::RetainsGraph().status().code(), absl::StatusCode::kFailedPrecondition);
}

// Notes the grad mode before and after an inner gradient, which needs it on.
struct EagerMode : torch::autograd::Function<EagerMode> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, std::vector<bool>* modes) {
    context->saved_data["modes"] = reinterpret_cast<int64_t>(modes);
    return x.clone();
  }
  static Tensors backward(torch::autograd::AutogradContext* context, const Tensors& incoming) {
    auto* modes = reinterpret_cast<std::vector<bool>*>(context->saved_data["modes"].toInt());
    modes->push_back(at::GradMode::is_enabled());
    {
      const at::AutoGradMode grad(true);
      const at::Tensor x = Leaf(3, {2});
      torch::autograd::grad({SquarePlus({x})[0].sum()}, {x});
    }
    modes->push_back(at::GradMode::is_enabled());
    return {incoming[0], at::Tensor()};
  }
};

TEST(ThreadCasesTest, TheGradModeOfANodeIsRestoredAfterAnInnerGradient) {
  Compiled f = *Compiled::Function(SquarePlus, {Leaf(0, {2})}, /*order=*/2);
  std::vector<bool> eager_modes, modes;
  const auto inner = [&]() -> absl::Status {
    modes.push_back(GradMode::enabled());
    {
      const GradModeGuard grad(true);
      const Variable x = ToVariable(Leaf(3, {2}));
      const Variables y = f({x});
      const auto gradients = autograd::Grad(y, {x}, OnesOf(y[0]), f.ops());
      if (!gradients.ok()) return gradients.status();
      ExpectNear(ToTorch((*gradients)[0]), 2 * Constant(3, {2}) + 1);
    }
    modes.push_back(GradMode::enabled());
    return absl::OkStatus();
  };
  for (const bool records : {false, true}) {
    const at::Tensor x = Leaf(0, {2});
    SquarePlus({EagerMode::apply(x, &eager_modes)})[0].backward(torch::ones({2}, torch::kDouble), records, records);
    const Variable ours = ToVariable(Leaf(0, {2}));
    const Variables end = f({IdentityNode(ours, inner)});
    const absl::Status ran = autograd::Backward(end, OnesOf(end[0]), f.ops(), {.create_graph = records});
    ASSERT_TRUE(ran.ok()) << ran;
    EXPECT_TRUE(GradMode::enabled());
    ExpectNear(ToTorch(ours.grad().tensor()), x.grad().detach());
    x.mutable_grad().reset();  // a cycle of the graph and its gradient
    Variable(ours).ClearGrad();
  }
  EXPECT_EQ(modes, (std::vector<bool>{false, false, true, true}));
  EXPECT_EQ(eager_modes, modes);
}

TEST(ThreadCasesTest, AHookThatRemovesItselfRunsABackwardOnCopies) {
  const at::Tensor p = Leaf(0, {3}), ones = torch::ones({3}, torch::kDouble);
  int eager_calls = 0, calls = 0;
  unsigned eager_id = 0;
  eager_id = p.register_hook([&](const at::Tensor& gradient) {
    ++eager_calls;
    const at::Tensor leaf = p;  // LibTorch destroys the hook when it is removed
    leaf.remove_hook(eager_id);
    leaf.mutable_grad().reset();
    const at::AutoGradMode grad(true);
    const at::Tensor copy = leaf.detach().clone().set_requires_grad(true);
    SquarePlus({copy})[0].backward(torch::ones_like(leaf));
    return gradient + copy.grad();
  });
  Compiled f = Load(Compile(SquarePlus, {Leaf(0, {3})}));
  Variable ours = ToVariable(Leaf(0, {3}));
  autograd::HookId id = 0;
  const auto hook = [&](const Tensor& gradient) -> absl::StatusOr<Tensor> {
    ++calls;
    EXPECT_TRUE(ours.RemoveHook(id));
    ours.ClearGrad();
    const GradModeGuard grad(true);
    const Variable copy = ToVariable(Leaf(0, {3}));
    const Variables end = f({copy});
    const absl::Status ran = autograd::Backward(end, OnesOf(end[0]), f.ops());
    if (!ran.ok()) return ran;
    return f.ops().Add(gradient, copy.grad().tensor());
  };
  id = *ours.AddHook(hook);
  for (int round = 0; round < 2; ++round) {
    SquarePlus({p})[0].backward(ones);
    const Variables end = f({ours});
    const absl::Status ran = autograd::Backward(end, OnesOf(end[0]), f.ops());
    ASSERT_TRUE(ran.ok()) << ran;
    ExpectNear(ToTorch(ours.grad().tensor()), p.grad());
    ExpectNear(p.grad(), (round + 2) * (2 * p.detach() + 1));
  }
  EXPECT_EQ(eager_calls, 1);
  EXPECT_EQ(calls, 1);
}

// One retained graph, run by five threads in turn; a node at its end fails for one of them.
TEST(ThreadCasesTest, AHookOfSeveralGradientsRunsOncePerBackwardOfEachThread) {
  const aot::TensorFunction product = [](const Tensors& in) -> Tensors { return {in[0] * in[1]}; };
  Compiled f = Load(Compile(product, {Leaf(0, {3}), Leaf(0, {3})}));
  for (const auto mode : {autograd::MultiGradMode::kAll, autograd::MultiGradMode::kAny}) {
    for (const bool fails : {false, true}) {
      const bool is_any = mode == autograd::MultiGradMode::kAny;
      std::mutex turn;
      int calls = 0, runs = 0, errors = 0;
      const Variable a = ToVariable(Leaf(0, {3})), b = ToVariable(Leaf(1, {3}));
      const auto run = [&] { return ++runs == 3 && fails ? absl::AbortedError("the third") : absl::OkStatus(); };
      const Variable between = WithInner(a, run);
      const Variables end = f({between, b});
      const auto hook = [&](const autograd::Gradients& gradients) {
        ++calls;
        for (const Tensor& gradient : gradients) EXPECT_TRUE(is_any || gradient.defined());
        return absl::OkStatus();
      };
      ASSERT_TRUE(autograd::AddMultiGradHook({a, b}, mode, hook).ok());
      OnThreads(5, [&](int) {
        const std::lock_guard lock(turn);
        errors += autograd::Backward(end, OnesOf(end[0]), f.ops(), {.retain_graph = true}).ok() ? 0 : 1;
      });
      EXPECT_EQ(errors, fails ? 1 : 0);
      EXPECT_EQ(calls, fails && !is_any ? 4 : 5);
    }
  }
}

}  // namespace
}  // namespace cotan::testing
