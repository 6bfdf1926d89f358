// SPDX-License-Identifier: Apache-2.0

// Hooks, retained gradients and captures that issues of PyTorch's tracker are about, and their neighbours: hooks inside
// of compiled functions, hooks without a gradient, gradients that share memory, calls in any order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/engine.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "aot/compile.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/function_node.h"
#include "runtime/compiled_autograd/compiled_autograd.h"
#include "runtime/execution/program.h"
#include "runtime/function.h"
#include "runtime/session.h"
#include "testing/autograd/three_ways.h"
#include "testing/autograd/walked_and_captured.h"
#include "testing/e2e/compiled_trainer.h"

namespace cotan::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const CompiledFunction& Doubled() {
  return Compiled("doubled", [](const Tensors& in) -> Tensors { return {in[0] * 2}; }, {{2, 2}});
}
const CompiledFunction& Sum() {
  return Compiled("sum", [](const Tensors& in) -> Tensors { return {in[0] + in[1]}; }, {{2, 2}, {2, 2}});
}

Tensors Sine(const Tensors& in) { return {in[0].sin()}; }

// A function of a session of its own.
struct Loaded {
  explicit Loaded(const CompiledFunction& compiled)
      : session(*Session::Create(*Program::LoadBytes(compiled.bytes, compiled.name),
                                 {.kernels = &CpuKernels(), .threads = 1})),
        function(*Function::Create(session, "forward")) {}

  Variable operator()(const std::vector<Variable>& arguments) {
    const auto results = function.Call(arguments);
    EXPECT_TRUE(results.ok()) << results.status();
    return std::get<Variable>((*results)[0]);
  }
  Tensor Ones(at::IntArrayRef sizes) {
    return *session.ops().Ones(DType::kFloat32, std::vector<int64_t>(sizes.begin(), sizes.end()));
  }

  Session session;
  Function function;
};

Variable LeafOf(const at::Tensor& values) { return *Variable::Leaf(*ToCotan(values.detach().contiguous())); }

// --- hooks inside of compiled functions ---------------------------------------------

// #91468.
TEST(HooksInsideTest, AHookOfAnIntermediateDecidesItsGradient) {
  const Outcome outcome = ExpectThreeWays(
      [](World& world) {
        const CompiledFunction& f =
            Compiled("replaced",
                     [](const Tensors& in) -> Tensors {
                       const at::Tensor y = in[0] * in[0];
                       y.retain_grad();
                       y.register_hook([](const at::Tensor& g) { return at::full_like(g, 3.14); });
                       return {y * in[0].pow(3)};
                     },
                     {{1}});
        const int x = world.Leaf(at::ones({1}));
        world.Backward(world.Call(f, {x}));
        return GradsOf(world, {x});
      },
      /*captures=*/1);
  EXPECT_NEAR(outcome.gradients[0].item<double>(), 9.28, 1e-5);
}

std::string Refusal(const TensorFunction& function) {
  const absl::Status status = aot::CompileFunction(function, {Example({2, 2})}, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

// #146212: the caller does not have the part of the gradient of h that comes from sin(h), nor what a hook makes of it.
TEST(HooksInsideTest, RetainedGradientsThatTheCallerDoesNotHaveAreRefused) {
  for (const bool has_hook : {false, true}) {
    const std::string message = Refusal([has_hook](const Tensors& in) -> Tensors {
      const at::Tensor h = in[0] * 2;
      h.retain_grad();
      if (has_hook) h.register_hook([](const at::Tensor& gradient) { return gradient * 3; });
      return {has_hook ? in[0].sin() : h.sin(), h};
    });
    EXPECT_THAT(message,
                HasSubstr(has_hook ? "of its result 1 and adds a hook" : "of its result 1 and computes other"));
  }
}

TEST(HooksInsideTest, HooksThatReplaceTheGradientOfAnArgumentAreRefused) {
  const auto clamped = [](const at::Tensor& gradient) { return gradient.clamp(-1, 1); };
  const TensorFunction function = [clamped](const Tensors& in) -> Tensors {
    in[0].register_hook(clamped);
    return {in[0] * 2};
  };
  EXPECT_THAT(Refusal(function), HasSubstr("a hook that the function adds to argument 0 replaces its gradient"));
}

TEST(HooksInsideTest, HooksOfAnArgumentMayLookAtTheGradient) {
  ExpectThreeWays(
      [](World& world) {
        const CompiledFunction& f = Compiled("seen",
                                             [](const Tensors& in) -> Tensors {
                                               in[0].register_hook([](const at::Tensor&) {});
                                               in[0].register_hook([](const at::Tensor& g) { return g; });
                                               return {in[0].sin()};
                                             },
                                             {{2, 2}});
        const int x = world.Leaf(at::randn({2, 2}));
        const int y = world.Call(Doubled(), {x})[0];
        world.Backward(world.Call(Sum(), {world.Call(f, {y})[0], y}));
        return GradsOf(world, {x});
      },
      /*captures=*/1);
}

// --- hooks without a gradient -------------------------------------------------------

// Returns the first argument; its backward has no gradient for the second.
struct First : torch::autograd::Function<First> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x, const at::Tensor&) {
    return x.clone();
  }
  static Tensors backward(torch::autograd::AutogradContext*, const Tensors& gradients) {
    return {gradients[0], at::Tensor()};
  }
};

// AG-038: the leaf has its turn first, though its gradient is undefined.
TEST(HooksWithoutGradientTest, TheHookOfALeafWithoutAGradientRunsInItsTurn) {
  std::vector<std::string> eager_log;
  {
    const at::Tensor x = Example({2, 2}), w = Example({2, 2});
    const at::Tensor a = x * 2;
    a.grad_fn();
    a.register_hook([&](const at::Tensor&) { eager_log.emplace_back("A"); });
    w.register_hook([&](const at::Tensor& g) { eager_log.emplace_back(g.defined() ? "B" : "B undefined"); });
    First::apply(a, w).sum().backward();
    EXPECT_FALSE(w.grad().defined());
  }
  Loaded doubled(Doubled());
  WalkedAndCaptured([&] {
    std::vector<std::string> log;
    Variable x = LeafOf(at::ones({2, 2})), w = LeafOf(at::ones({2, 2}));
    Variable a = doubled({x});
    const auto note = [&log](const std::string& name) {
      return [&log, name](const Tensor& gradient) -> absl::StatusOr<Tensor> {
        log.push_back(gradient.defined() ? name : name + " undefined");
        return Tensor();
      };
    };
    ASSERT_TRUE(a.AddHook(note("A")).ok());
    ASSERT_TRUE(w.AddHook(note("B")).ok());
    const auto first = [](autograd::BackwardContext&,
                          absl::Span<Tensor> incoming) -> absl::StatusOr<autograd::Gradients> {
      return autograd::Gradients{incoming[0], Tensor()};
    };
    const Variable m = (*autograd::ApplyFunction("First", {a, w}, {*a.tensor().Clone()}, first))[0];
    const absl::Status status = autograd::Backward({m}, {doubled.Ones({2, 2})}, doubled.session.ops());
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_THAT(log, ElementsAre("B undefined", "A"));
    EXPECT_EQ(log, eager_log);
    EXPECT_FALSE(w.grad().defined());
    EXPECT_EQ(*x.grad().tensor().ToVector<float>(), std::vector<float>(4, 2));
  });
}

// A hook of a result that nothing was computed from, of a call that has another one.
TEST(HooksWithoutGradientTest, TheHookOfAResultThatIsNotUsedSeesNoGradient) {
  const TensorFunction chunks = [](const Tensors& in) -> Tensors {
    const Tensors parts = in[0].sin().unsafe_chunk(2);
    return {parts[0], parts[1]};
  };
  const Outcome outcome = ExpectThreeWays(
      [&chunks](World& world) {
        const std::vector<int> parts = world.Call(Compiled("chunks", chunks, {{4}}), {world.Leaf(at::randn({4}))});
        for (const int part : parts) {
          world.TensorHook(part, [&world](const at::Tensor& gradient) {
            world.log.emplace_back(gradient.defined() ? "gradient" : "none");
            return at::Tensor();
          });
        }
        world.Backward({parts[1]});
        return Tensors();
      },
      /*captures=*/1);
  EXPECT_THAT(outcome.log, ElementsAre("none", "gradient"));
}

TEST(HooksWithoutGradientTest, AReplacementOfAnotherTypeIsRefused) {
  Loaded doubled(Doubled());
  WalkedAndCaptured([&] {
    for (const bool is_leaf : {false, true}) {
      for (const Tensor& other : {*Tensor::From<float>({7, 7}, {2}), *Tensor::From<double>({7, 7, 7, 7}, {2, 2})}) {
        Variable x = LeafOf(at::ones({2, 2}));
        Variable y = doubled({x});
        const auto replace = [&other](const Tensor&) -> absl::StatusOr<Tensor> { return other; };
        ASSERT_TRUE((is_leaf ? x : y).AddHook(replace).ok());
        const absl::Status refused = autograd::Backward({y}, {doubled.Ones({2, 2})}, doubled.session.ops());
        EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
        EXPECT_THAT(refused.message(), HasSubstr("a hook replaced the gradient f32[2,2] by " + other.ToString()));
        EXPECT_FALSE(x.grad().defined());
      }
    }
  });
}

// --- order and memory ---------------------------------------------------------------

// #144376, #119906: each hook sees what was just written, in the order of the walk.
TEST(CaptureIssuesTest, PostAccumulateHooksRunInTheOrderOfTheWalkAndReadTheirGradient) {
  const Outcome outcome = ExpectThreeWays(
      [](World& world) {
        const CompiledFunction& f = Compiled(
            "three leaves", [](const Tensors& in) -> Tensors { return {(in[0] * in[1] + in[2].sin()) * in[1]}; },
            {{2, 2}, {2, 2}, {2, 2}});
        std::vector<int> leaves;
        for (int i = 0; i < 4; ++i) leaves.push_back(world.Leaf(at::randn({2, 2})));
        for (const int leaf : leaves) {
          world.PostAccumulateHook(leaf, [&world, leaf] {
            world.log.push_back(std::to_string(leaf));
            world.SetGrad(leaf, world.GradOf(leaf) / 2);
          });
        }
        const int inner = world.Call(f, {leaves[3], leaves[1], leaves[0]})[0];
        world.Backward(world.Call(f, {leaves[2], inner, leaves[0]}));
        return GradsOf(world, leaves);
      },
      /*captures=*/1);
  EXPECT_EQ(outcome.log.size(), 4u);
}

// Three times x.
struct Tripled : torch::autograd::Function<Tripled> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return x * 3;
  }
  static Tensors backward(torch::autograd::AutogradContext* context, const Tensors& gradients) {
    return {gradients[0] * 3 + 0 * context->get_saved_variables()[0]};
  }
};

// #155105.
TEST(CaptureIssuesTest, ANodeInsideOfAProgramIsCapturedOnce) {
  ExpectThreeWays(
      [](World& world) {
        const CompiledFunction& f =
            Compiled("tripled", [](const Tensors& in) -> Tensors { return {Tripled::apply(in[0].sin())}; }, {{2, 2}});
        Tensors all;
        for (int round = 0; round < 10; ++round) {
          const int x = world.Leaf(at::randn({2, 2}));
          world.Backward(world.Call(f, {x}));
          Append(all, GradsOf(world, {x}));
        }
        return all;
      },
      /*captures=*/1);
  EXPECT_EQ(CompiledAutograd::Stats().hits, 9);
}

// Queues a function in the backward that runs, of the runtime or of LibTorch.
void QueueFinal(const std::function<void()>& callback) {
  const absl::Status queued = autograd::QueueCallback([callback] {
    callback();
    return absl::OkStatus();
  });
  if (!queued.ok()) torch::autograd::Engine::get_default_engine().queue_callback(callback);
}

TEST(CaptureIssuesTest, FinalCallbacksRunOnceAfterAllHooksOfEachBackward) {
  const Outcome outcome = ExpectThreeWays(
      [](World& world) {
        Tensors all;
        for (int round = 0; round < 2; ++round) {
          const int x = world.Leaf(at::randn({2, 2}));
          const int y = world.Call(Doubled(), {x})[0];
          world.TensorHook(y, [&world](const at::Tensor&) {
            world.log.emplace_back("hook");
            QueueFinal([&world] { world.log.emplace_back("final"); });
            return at::Tensor();
          });
          world.PostAccumulateHook(x, [&world] { world.log.emplace_back("accumulated"); });
          world.Backward(world.Call(Doubled(), {y}));
          Append(all, GradsOf(world, {x}));
        }
        return all;
      },
      /*captures=*/1);
  EXPECT_THAT(outcome.log, ElementsAre("hook", "accumulated", "final", "hook", "accumulated", "final"));
}

TEST(CaptureIssuesTest, AnErrorOfAFinalCallbackIsThatOfTheBackward) {
  Loaded doubled(Doubled());
  WalkedAndCaptured([&] {
    Variable x = LeafOf(at::ones({2, 2}));
    Variable y = doubled({x});
    const auto hook = [](const Tensor&) -> absl::StatusOr<Tensor> {
      const absl::Status queued = autograd::QueueCallback([] { return absl::AbortedError("the last word"); });
      if (!queued.ok()) return queued;
      return Tensor();
    };
    ASSERT_TRUE(y.AddHook(hook).ok());
    const absl::Status failed = autograd::Backward({y}, {doubled.Ones({2, 2})}, doubled.session.ops());
    EXPECT_EQ(failed.code(), absl::StatusCode::kAborted);
    EXPECT_THAT(failed.message(), HasSubstr("the last word"));
    EXPECT_TRUE(x.grad().defined());
  });
}

int CountOf(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Of a matrix product both gradients are compiled. The linked method has only those that are asked for.
TEST(CaptureIssuesTest, OnlyTheGradientsThatAreAskedForAreComputedUnderTheNamesOfTheirNodes) {
  const TensorFunction product = [](const Tensors& in) -> Tensors { return {in[0].matmul(in[1])}; };
  Loaded first(Compiled("product", product, {{3, 4}, {4, 5}})), second(Compiled("sine", Sine, {{3, 5}}));
  for (const bool both : {true, false}) {
    const Variable a = LeafOf(Example({3, 4})), b = LeafOf(Example({4, 5}));
    const Variable y = second({first({a, b})});
    ASSERT_TRUE(CompiledAutograd::Reset().ok());
    const CompiledAutograd scope;
    const std::vector<Variable> inputs = both ? std::vector<Variable>{a, b} : std::vector<Variable>{b};
    ASSERT_TRUE(autograd::Grad({y}, inputs, {second.Ones({3, 5})}, second.session.ops()).ok());
    const std::string& text = CompiledAutograd::Text();
    EXPECT_EQ(CountOf(text, "matmul"), both ? 2 : 1) << text;
    EXPECT_GE(CountOf(text, "0.sine.CompiledBackward('forward')"), 1) << text;
    EXPECT_GE(CountOf(text, "1.product.CompiledBackward('forward')"), both ? 2 : 1) << text;
  }
}

// #129938: nothing is saved. The second backward finds a gradient, which is another graph.
TEST(CaptureIssuesTest, ASecondBackwardWithoutSavedValuesNeedsNoRetainedGraph) {
  const Outcome outcome = ExpectThreeWays(
      [](World& world) {
        const CompiledFunction& f =
            Compiled("plus one", [](const Tensors& in) -> Tensors { return {in[0] + 1}; }, {{2, 2}});
        const int b = world.Leaf(at::randn({2, 2}));
        const int c = world.Call(f, {b})[0];
        world.Backward({c});
        world.Backward({c});
        return GradsOf(world, {b});
      },
      /*captures=*/2);
  EXPECT_TRUE(at::equal(outcome.gradients[0], at::full({2, 2}, 2.0)));
}

// #181723: gradients are in memory that no later backward writes.
TEST(CaptureIssuesTest, GradientsOfLeavesShareNoMemory) {
  Loaded sum(Sum());
  WalkedAndCaptured([&] {
    const Variable x = LeafOf(at::ones({2, 2})), y = LeafOf(at::ones({2, 2}));
    const Tensor tangent = sum.Ones({2, 2});
    ASSERT_TRUE(autograd::Backward({sum({x, y})}, {tangent}, sum.session.ops()).ok());
    EXPECT_NE(x.grad().tensor().storage(), y.grad().tensor().storage());
    EXPECT_NE(x.grad().tensor().storage(), tangent.storage());
    EXPECT_NE(y.grad().tensor().storage(), tangent.storage());
    const Variable z = LeafOf(at::ones({2, 2})), w = LeafOf(at::ones({2, 2}));
    const Tensor twos = *ToCotan(at::full({2, 2}, 2.0F));
    ASSERT_TRUE(autograd::Backward({sum({z, w})}, {twos}, sum.session.ops()).ok());
    EXPECT_EQ(*x.grad().tensor().ToVector<float>(), std::vector<float>(4, 1));
    EXPECT_EQ(*z.grad().tensor().ToVector<float>(), std::vector<float>(4, 2));
  });
}

// Gradients that are parts of one buffer, as for an all-reduce, are added to where they are.
TEST(CaptureIssuesTest, GradientsMayBePartsOfOneBuffer) {
  Loaded product(Compiled("sine of product", [](const Tensors& in) -> Tensors { return {(in[0] * in[1]).sin()}; },
                          {{2, 2}, {2, 2}}));
  std::vector<std::vector<float>> buffers;
  WalkedAndCaptured([&] {
    Variable x = LeafOf(at::ones({2, 2})), y = LeafOf(2 * at::ones({2, 2}));
    const Tensor buffer = *Tensor::Zeros(DType::kFloat32, {8});
    int64_t offset = 0;
    for (Variable* leaf : {&x, &y}) {
      const StridedLayout part = {.sizes = {2, 2}, .strides = {2, 1}, .offset = offset};
      ASSERT_TRUE(leaf->SetGrad(Variable(*Tensor::InStorage(buffer.storage(), DType::kFloat32, part))).ok());
      offset += 4;
    }
    for (int round = 0; round < 3; ++round) {
      ASSERT_TRUE(autograd::Backward({product({x, y})}, {product.Ones({2, 2})}, product.session.ops()).ok());
    }
    buffers.push_back(*buffer.ToVector<float>());
  });
  const float cosine = std::cos(2.0F);
  for (const std::vector<float>& buffer : buffers) {
    EXPECT_NEAR(buffer[0], 3 * 2 * cosine, 1e-5);
    EXPECT_NEAR(buffer[7], 3 * cosine, 1e-5);
  }
  EXPECT_EQ(buffers[0], buffers[1]);
  EXPECT_EQ(CompiledAutograd::Stats().captures, 1);
  EXPECT_EQ(CompiledAutograd::Stats().walked_segments, 0);
}

TEST(CaptureIssuesTest, TangentsMayHaveAnyStrides) {
  const TensorFunction function = [](const Tensors& in) -> Tensors { return {in[0].matmul(in[1]).tanh()}; };
  Loaded f(Compiled("tanh of matmul", function, {{3, 4}, {4, 5}}));
  const at::Tensor a = Example({3, 4}), b = Example({4, 5});
  const at::Tensor whole = at::randn({6, 10});
  const Tensors tangents = {at::randn({5, 3}).t(), at::randn({3, 1}).expand({3, 5}),
                            whole.slice(0, 1, 6, 2).slice(1, 0, 10, 2)};
  for (const at::Tensor& tangent : tangents) {
    const Tensors expected = torch::autograd::grad(function({a, b}), {a, b}, {tangent});
    const at::Tensor flat = at::from_blob(tangent.storage().mutable_data(),
                                          {static_cast<int64_t>(tangent.storage().nbytes() / sizeof(float))});
    const StridedLayout layout = {.sizes = DimVector(tangent.sizes().begin(), tangent.sizes().end()),
                                  .strides = DimVector(tangent.strides().begin(), tangent.strides().end()),
                                  .offset = tangent.storage_offset()};
    WalkedAndCaptured([&] {
      const Tensor ours = *Tensor::InStorage((*ToCotan(flat)).storage(), DType::kFloat32, layout);
      const Variable x = LeafOf(a), y = LeafOf(b);
      ASSERT_TRUE(autograd::Backward({f({x, y})}, {ours}, f.session.ops()).ok());
      EXPECT_TRUE(at::allclose(*ToTorch(x.grad().tensor()), expected[0], 1e-5, 1e-5));
      EXPECT_TRUE(at::allclose(*ToTorch(y.grad().tensor()), expected[1], 1e-5, 1e-5));
    });
  }
}

// #190759: each call has its own mask, whatever is computed again and in whatever order backwards follow.
TEST(CaptureIssuesTest, BackwardsOfRandomCallsRunInAnyOrder) {
  for (const double budget : {1.0, 0.0}) {
    const TensorFunction function = [](const Tensors& in) -> Tensors {
      return {at::dropout(in[0] * in[0], 0.5, true).sin()};
    };
    const auto model = aot::CompileFunction(function, {Example({64})}, {.activation_memory_budget = budget});
    ASSERT_TRUE(model.ok()) << model.status();
    Loaded f(CompiledFunction(function, std::string(model->bytes())));
    WalkedAndCaptured([&] {
      Variable x = LeafOf(at::ones({64}));
      const std::vector<Variable> calls = {f({x}), f({x})};
      ASSERT_NE(*calls[0].tensor().ToVector<float>(), *calls[1].tensor().ToVector<float>());
      for (const bool retain : {true, false}) {
        for (const Variable& call : {calls[1], calls[0]}) {
          x.ClearGrad();
          const absl::Status status =
              autograd::Backward({call}, {f.Ones({64})}, f.session.ops(), {.retain_graph = retain});
          ASSERT_TRUE(status.ok()) << status;
          const at::Tensor kept = (*ToTorch(call.tensor()) != 0).to(at::kFloat);
          EXPECT_TRUE(at::allclose(*ToTorch(x.grad().tensor()), (2 * kept).cos() * kept * 4, 1e-5, 1e-5));
        }
      }
    });
  }
}

}  // namespace
}  // namespace cotan::testing
