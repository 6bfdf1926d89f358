// SPDX-License-Identifier: Apache-2.0

// Scopes of captures, the check for NaN, and final callbacks, of backwards of compiled functions beside LibTorch eager.
// Rows C10 and C11 of cases.txt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/autograd/engine.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/compiled_autograd/compiled_autograd.h"
#include "testing/autograd/walked_and_captured.h"
#include "testing/higher_order/compiled.h"

namespace cotan::testing {
namespace {

using ::testing::HasSubstr;
using Log = std::vector<std::string>;

Compiled Compile(const aot::TensorFunction& function, const Tensors& examples) {
  auto compiled = Compiled::Function(function, examples, /*order=*/1);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *std::move(compiled);
}

Tensors Square(const Tensors& in) { return {in[0] * in[0]}; }
Tensors Product(const Tensors& in) { return {in[0] * in[1]}; }

at::Tensor Ones() { return torch::ones({3}, torch::kDouble); }
absl::Status BackwardOf(const Variables& roots, Compiled& f, bool retain_graph = false) {
  return autograd::Backward(roots, {ToCotan(Ones())}, f.ops(), {.retain_graph = retain_graph});
}
void ExpectGrad(const Variable& variable, const at::Tensor& expected) {
  ASSERT_TRUE(variable.grad().defined());
  ExpectNear(ToTorch(variable.grad().tensor()), expected);
}

// CA-071.
TEST(ScopeCasesTest, OnlyBackwardsInsideOfAScopeAreCaptured) {
  const at::Tensor x = Leaf(0, {3});
  Square({x})[0].backward(Ones());
  Compiled f = Compile(Square, {Leaf(0, {3})});
  const auto captures_of = [&](bool call_in_scope, bool backward_in_scope) {
    const int64_t before = CompiledAutograd::Stats().captures;
    auto scope = call_in_scope ? std::make_unique<CompiledAutograd>() : nullptr;
    const Variable ours = ToVariable(Leaf(0, {3}));
    const Variables end = f({ours});
    if (!backward_in_scope) scope = nullptr;
    if (backward_in_scope && !call_in_scope) scope = std::make_unique<CompiledAutograd>();
    const absl::Status ran = BackwardOf(end, f);
    EXPECT_TRUE(ran.ok()) << ran;
    ExpectGrad(ours, x.grad());
    return CompiledAutograd::Stats().captures - before;
  };
  ASSERT_TRUE(CompiledAutograd::Reset().ok());
  EXPECT_EQ(captures_of(false, false), 0);
  EXPECT_EQ(captures_of(true, true), 1);
  EXPECT_EQ(captures_of(false, false), 0);
  ASSERT_TRUE(CompiledAutograd::Reset().ok());
  EXPECT_EQ(captures_of(true, false), 0);
  EXPECT_EQ(captures_of(false, true), 1);
}

// CA-072.
TEST(ScopeCasesTest, ARetainedGraphIsCapturedAndWalkedInTurn) {
  const at::Tensor x = torch::full({3}, 2.0, torch::kDouble).set_requires_grad(true), y = Square({x})[0];
  Compiled f = Compile(Square, {Leaf(0, {3})});
  Variable ours = ToVariable(x);
  const Variables end = f({ours});
  ASSERT_TRUE(CompiledAutograd::Reset().ok());
  for (int round = 0; round < 5; ++round) {
    x.mutable_grad().reset();
    y.backward(Ones(), /*keep_graph=*/true);
    ExpectNear(x.grad(), 4 * Ones());
    for (const bool captured : {true, false}) {
      ours.ClearGrad();
      const auto scope = captured ? std::make_unique<CompiledAutograd>() : nullptr;
      ASSERT_TRUE(BackwardOf(end, f, /*retain_graph=*/true).ok());
      ExpectGrad(ours, x.grad());
    }
  }
  EXPECT_EQ(CompiledAutograd::Stats().captures, 1);
  EXPECT_EQ(CompiledAutograd::Stats().hits, 4);
}

// CA-075. The gradient of the first factor is the second one.
TEST(ScopeCasesTest, GradientsThatAreOrBecomeNanAreRefused) {
  const at::Tensor nan = torch::full({3}, std::numeric_limits<double>::quiet_NaN(), torch::kDouble);
  const at::Tensor x = Leaf(0, {3});
  Product({x, nan})[0].backward(Ones());
  EXPECT_TRUE(x.grad().isnan().all().item<bool>());
  x.mutable_grad().reset();
  Product({x, Constant(1, {3})})[0].backward(Ones());

  Compiled f = Compile(Product, {Leaf(0, {3}), Constant(1, {3})});
  ASSERT_TRUE(CompiledAutograd::Reset().ok());
  const CompiledAutograd scope({.check_nan = true});
  const auto refused = [](const absl::Status& status, const std::string& part) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  };
  Variable ours = ToVariable(Leaf(0, {3}));
  refused(BackwardOf(f({ours, ToVariable(nan)}), f), "NaN gradients for parameters: 0");
  const std::vector<Tensor> ones = {ToCotan(Ones())};
  refused(autograd::Grad(f({ours, ToVariable(nan)}), {ours}, ones, f.ops()).status(), "NaN gradients for outputs: 0");
  const Variable other = ToVariable(Constant(1, {3}));
  ASSERT_TRUE(ours.SetGrad(ToVariable(nan)).ok());
  refused(BackwardOf(f({ours, other}), f), "is already NaN, which is not supported");
  ours.ClearGrad();
  ASSERT_TRUE(BackwardOf(f({ours, other}), f).ok());
  ExpectGrad(ours, x.grad());
}

// --- final callbacks --------------------------------------------------------------------

void QueueOfEager(std::function<void()> callback) {
  torch::autograd::Engine::get_default_engine().queue_callback(std::move(callback));
}
absl::Status Queue(std::function<void()> callback) {
  return autograd::QueueCallback([callback = std::move(callback)] {
    callback();
    return absl::OkStatus();
  });
}

// AG-080.
TEST(ScopeCasesTest, ACallbackThatACallbackQueuesRunsAfterIt) {
  const Log expected = {"node", "leaf", "A", "B"};
  Log log;
  const auto note = [&log](const std::string& name) { log.push_back(name); };
  const at::Tensor x = Leaf(0, {3}), middle = x * 1;
  const auto note_leaf = [&](const at::Tensor& gradient) {
    note("leaf");
    return gradient;
  };
  x.register_hook(note_leaf);
  middle.register_hook([&](const at::Tensor& gradient) {
    note("node");
    QueueOfEager([&] {
      note("A");
      QueueOfEager([&] { note("B"); });
    });
    return gradient;
  });
  Square({middle})[0].backward(Ones());
  EXPECT_EQ(log, expected);

  Compiled f = Compile(Square, {Leaf(0, {3})});
  WalkedAndCaptured([&] {
    log.clear();
    Variable ours = ToVariable(Leaf(0, {3}));
    const auto hook = [&](const Tensor& gradient) -> absl::StatusOr<Tensor> {
      note("leaf");
      return gradient;
    };
    ASSERT_TRUE(ours.AddHook(hook).ok());
    const auto inner = [&] {
      note("node");
      return Queue([&] {
        note("A");
        EXPECT_TRUE(Queue([&] { note("B"); }).ok());
      });
    };
    const absl::Status ran = BackwardOf(f({WithInner(ours, inner)}), f);
    ASSERT_TRUE(ran.ok()) << ran;
    EXPECT_EQ(log, expected);
    ExpectGrad(ours, x.grad());
  });
}

// AG-081.
TEST(ScopeCasesTest, CallbacksOfAnInnerBackwardRunAtItsOwnEnd) {
  Compiled f = Compile(Square, {Leaf(0, {3})});
  using Queues = std::pair<bool, bool>;
  for (const Queues& queues : {Queues(true, false), Queues(false, true), Queues(true, true)}) {
    const bool queues_outer = queues.first, queues_inner = queues.second;
    Log expected = {"outer", "inner"};
    if (queues_inner) expected.emplace_back("I");
    expected.emplace_back("outer goes on");
    if (queues_outer) expected.emplace_back("O");
    Log log;
    const auto note = [&log](const std::string& name) { log.push_back(name); };
    const at::Tensor x = Leaf(0, {3}), middle = x * 1;
    middle.register_hook([&](const at::Tensor& gradient) {
      note("outer");
      if (queues_outer) QueueOfEager([&] { note("O"); });
      const at::AutoGradMode grad(true);
      const at::Tensor y = Leaf(1, {3}), inner = y * 1;
      inner.register_hook([&](const at::Tensor& inner_gradient) {
        note("inner");
        if (queues_inner) QueueOfEager([&] { note("I"); });
        return inner_gradient;
      });
      Square({inner})[0].backward(Ones());
      note("outer goes on");
      return gradient;
    });
    Square({middle})[0].backward(Ones());
    EXPECT_EQ(log, expected);

    WalkedAndCaptured([&] {
      log.clear();
      const auto inner = [&] {
        note("inner");
        return queues_inner ? Queue([&] { note("I"); }) : absl::OkStatus();
      };
      const auto outer = [&]() -> absl::Status {
        note("outer");
        const absl::Status queued = queues_outer ? Queue([&] { note("O"); }) : absl::OkStatus();
        if (!queued.ok()) return queued;
        const GradModeGuard grad(true);
        const absl::Status ran = BackwardOf(f({WithInner(ToVariable(Leaf(1, {3})), inner)}), f);
        note("outer goes on");
        return ran;
      };
      const Variable ours = ToVariable(Leaf(0, {3}));
      const absl::Status ran = BackwardOf(f({WithInner(ours, outer)}), f);
      ASSERT_TRUE(ran.ok()) << ran;
      EXPECT_EQ(log, expected);
      ExpectGrad(ours, x.grad());
    });
  }
}

// AG-082.
TEST(ScopeCasesTest, ACallbackOutsideOfABackwardIsRefused) {
  const auto nothing = [] {};
  EXPECT_ANY_THROW(QueueOfEager(nothing));
  Compiled f = Compile(Square, {Leaf(0, {3})});
  WalkedAndCaptured([&] {
    for (int round = 0; round < 2; ++round) {  // before a backward, and after it
      const absl::Status refused = Queue(nothing);
      EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(std::string(refused.message()), HasSubstr("only during backward"));
      ASSERT_TRUE(BackwardOf(f({ToVariable(Leaf(0, {3}))}), f).ok());
    }
  });
}

}  // namespace
}  // namespace cotan::testing
