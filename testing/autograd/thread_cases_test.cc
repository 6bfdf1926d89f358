// SPDX-License-Identifier: Apache-2.0

// Backwards on several threads and inside of one another, through compiled functions, beside LibTorch eager.
// The rows C10 of cases.txt.
#include <gtest/gtest.h>
#include <pthread.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/autograd/engine.h"
#include "runtime/autograd/function_node.h"
#include "runtime/autograd/grad_mode.h"
#include "testing/higher_order/compiled.h"

namespace cotan::testing {
namespace {

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

TEST(ThreadCasesTest, ALeafOfSeveralThreadsGetsTheSum) {
  const aot::CompiledModel model = Compile(Parabola, {Leaf(0, {5, 5})});
  const at::Tensor x = torch::ones({5, 5}, torch::kDouble).set_requires_grad(true);
  OnThreads(10, [&x](int) { Parabola({x})[0].backward(torch::ones_like(x)); });
  ExpectNear(x.grad(), torch::full({5, 5}, 45, torch::kDouble));
  const at::Tensor alone = torch::full({5, 5}, 4.5, torch::kDouble);

  const Variable ours = *Variable::Leaf(ToCotan(torch::ones({5, 5})));
  const auto on_ten_threads = [&](bool accumulates) {
    std::vector<std::unique_ptr<Compiled>> functions(10);
    for (auto& f : functions) f = std::make_unique<Compiled>(Load(model));
    OnThreads(10, [&](int i) {
      Compiled& f = *functions[static_cast<size_t>(i)];
      for (int step = 0; step < 20; ++step) {
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
  on_ten_threads(/*accumulates=*/false);
  EXPECT_FALSE(ours.grad().defined());
  on_ten_threads(/*accumulates=*/true);
  ExpectNear(ToTorch(ours.grad().tensor()), 20 * x.grad());
}

// Returns x after a node whose backward runs `inner` and passes the gradient on.
Variable WithInner(const Variable& x, std::function<absl::Status()> inner) {
  const auto backward = [inner = std::move(inner)](autograd::BackwardContext&,
                                                   absl::Span<Tensor> incoming) -> absl::StatusOr<autograd::Gradients> {
    const absl::Status ran = inner();
    if (!ran.ok()) return ran;
    return autograd::Gradients{incoming[0]};
  };
  return (*autograd::ApplyFunction("Reenter", {x}, {x.tensor()}, backward))[0];
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
    for (const int depth : {2000, 200}) {
      int left = depth;
      std::function<absl::Status()> enter = [&] {
        EXPECT_FALSE(GradMode::enabled() && left < depth);
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
  });
}

}  // namespace
}  // namespace cotan::testing
