// SPDX-License-Identifier: Apache-2.0

// Hooks that change gradients, and the order of nodes, in captured backwards: rows C5 and C6 of cases.txt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "runtime/compiled_autograd/compiled_autograd.h"
#include "testing/autograd/three_ways.h"

namespace cotan::testing {
namespace {

using ::testing::ElementsAre;

const CompiledFunction& Total() {
  return Compiled("total", [](const Tensors& in) -> Tensors { return {in[0].sum()}; }, {{2, 4}});
}
const CompiledFunction& TotalOfRow() {
  return Compiled("total of a row", [](const Tensors& in) -> Tensors { return {in[0].sum()}; }, {{1, 4}});
}
const CompiledFunction& Linear() {
  return Compiled("linear", [](const Tensors& in) -> Tensors { return {at::linear(in[0], in[1])}; }, {{2, 4}, {4, 4}});
}
const CompiledFunction& Addmm() {
  return Compiled("addmm", [](const Tensors& in) -> Tensors { return {at::addmm(in[0], in[1], in[2])}; },
                  {{4}, {2, 4}, {4, 4}});
}
const CompiledFunction& Relu() {
  return Compiled("relu", [](const Tensors& in) -> Tensors { return {at::relu(in[0])}; }, {{2, 4}});
}

// A hook that notes `name` and replaces grad() of the leaf.
World::NodeHook ChangesGrad(World& world, std::string name, int leaf, double factor, double term) {
  return [&world, name, leaf, factor, term](const Tensors&, const Tensors&) {
    world.log.push_back(name);
    world.SetGrad(leaf, world.GradOf(leaf) * factor + term);
  };
}

// A hook that notes `name` and returns factor * g + term of what arrives.
World::ReplacingHook Changes(World& world, std::string name, double factor, double term) {
  return [&world, name, factor, term](const Tensors&, const Tensors& incoming) -> Tensors {
    world.log.push_back(name);
    return {incoming[0] * factor + term};
  };
}

TEST(HookOrderCasesTest, APostHookMixesResultsAndWhatArrived) {
  const Outcome outcome = ExpectThreeWays(
      [](World& world) {
        Tensors all;
        for (int round = 0; round < 2; ++round) {
          const int x = world.Leaf(at::randn({1, 4}));
          const int y = world.Call(TotalOfRow(), {x})[0];
          world.ReplacingPostHook(y, [](const Tensors& results, const Tensors& incoming) -> Tensors {
            return {results[0].sin() + incoming[0]};
          });
          world.Backward({y});
          Append(all, GradsOf(world, {x}));
        }
        return all;
      },
      /*captures=*/1);
  for (const at::Tensor& gradient : outcome.gradients) {
    EXPECT_TRUE(at::allclose(gradient, at::full({1, 4}, std::sin(1.0) + 1)));
  }
}

TEST(HookOrderCasesTest, PostHooksOfAccumulationsSeeTheSum) {
  const auto run = [](World& world, bool hooked) {
    Tensors all;
    const int w1 = world.Leaf(at::randn({4, 4}));
    const int w2 = world.Leaf(at::randn({4, 4}));
    const int x = world.Leaf(at::randn({2, 4}));
    if (hooked) {
      world.PostHook(w1, ChangesGrad(world, "w1", w1, 0.25, 0));
      world.PostHook(w2, ChangesGrad(world, "w2", w2, 0.25, 0));
    }
    world.Backward(world.Call(Linear(), {world.Call(Linear(), {x, w1})[0], w2}));
    return GradsOf(world, {w1, w2});
  };
  const Outcome hooked = ExpectThreeWays([run](World& world) { return run(world, true); }, /*captures=*/1);
  const Outcome plain = ExpectThreeWays([run](World& world) { return run(world, false); }, /*captures=*/1);
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(at::equal(hooked.gradients[i], plain.gradients[i] / 4)) << i;
  EXPECT_THAT(hooked.log, ElementsAre("w2", "w1"));
}

TEST(HookOrderCasesTest, PostHooksOfTwoNodesInAChain) {
  const Outcome outcome = ExpectThreeWays(
      [](World& world) {
        const CompiledFunction& sigmoid =
            Compiled("sigmoid", [](const Tensors& in) -> Tensors { return {at::sigmoid(in[0])}; }, {{2, 4}});
        const CompiledFunction& tanh =
            Compiled("tanh", [](const Tensors& in) -> Tensors { return {at::tanh(in[0])}; }, {{2, 4}});
        const at::Tensor values = at::randn({2, 4});
        const int x = world.Leaf(values);
        const int s = world.Call(sigmoid, {x})[0];
        const int z = world.Call(tanh, {s})[0];
        world.ReplacingPostHook(z,
                                [](const Tensors&, const Tensors& incoming) -> Tensors { return {incoming[0] * 2}; });
        world.ReplacingPostHook(s, [](const Tensors& results, const Tensors&) -> Tensors { return {results[0] * 2}; });
        world.Backward(world.Call(Total(), {z}));
        Tensors all = GradsOf(world, {x});
        const at::Tensor y = at::sigmoid(values);
        all.push_back(4 * y * (1 - y));
        return all;
      },
      /*captures=*/1);
  EXPECT_TRUE(at::allclose(outcome.gradients[0], outcome.gradients[1]));
}

TEST(HookOrderCasesTest, APostHookChangesOneResultOfSeveral) {
  const auto run = [](World& world, double factor) {
    const CompiledFunction& conv = Compiled(
        "conv", [](const Tensors& in) -> Tensors { return {at::conv2d(in[0], in[1])}; }, {{1, 2, 5, 5}, {3, 2, 3, 3}});
    const int x = world.Leaf(at::randn({1, 2, 5, 5}));
    const int w = world.Leaf(at::randn({3, 2, 3, 3}));
    const int y = world.Call(conv, {x, w})[0];
    world.ReplacingPostHook(y, [factor](const Tensors& results, const Tensors&) -> Tensors {
      return {results[0], results[1] * factor};
    });
    world.Backward({y});
    return GradsOf(world, {x, w});
  };
  const Outcome doubled = ExpectThreeWays([run](World& world) { return run(world, 2); }, /*captures=*/1);
  const Outcome plain = ExpectThreeWays([run](World& world) { return run(world, 1); }, /*captures=*/1);
  EXPECT_TRUE(at::equal(doubled.gradients[0], plain.gradients[0]));
  EXPECT_TRUE(at::equal(doubled.gradients[1], plain.gradients[1] * 2));
}

TEST(HookOrderCasesTest, HooksOfOneKindRunInTheirOrderOfRegistration) {
  const auto run = [](World& world, bool hooked) {
    const int w1 = world.Leaf(at::randn({4, 4}));
    const int w2 = world.Leaf(at::randn({4, 4}));
    const int x = world.Leaf(at::randn({2, 4}));
    if (hooked) {
      world.PostHook(w1, ChangesGrad(world, "w1 half", w1, 0.5, 0));
      world.PostHook(w1, ChangesGrad(world, "w1 less", w1, 1, -0.3));
      world.PostHook(w2, ChangesGrad(world, "w2 third", w2, 0.3, 0));
      world.PostHook(w2, ChangesGrad(world, "w2 less", w2, 1, -0.5));
    }
    world.Backward(world.Call(Linear(), {world.Call(Linear(), {x, w1})[0], w2}));
    return GradsOf(world, {w1, w2});
  };
  const Outcome hooked = ExpectThreeWays([run](World& world) { return run(world, true); }, /*captures=*/1);
  const Outcome plain = ExpectThreeWays([run](World& world) { return run(world, false); }, /*captures=*/1);
  EXPECT_TRUE(at::allclose(hooked.gradients[0], plain.gradients[0] * 0.5 - 0.3));
  EXPECT_TRUE(at::allclose(hooked.gradients[1], plain.gradients[1] * 0.3 - 0.5));
  EXPECT_THAT(hooked.log, ElementsAre("w2 third", "w2 less", "w1 half", "w1 less"));
}

TEST(HookOrderCasesTest, PreHooksOfAccumulationsAndTensorHooksRunInTheirOrder) {
  const auto run = [](World& world, bool hooked) {
    const int w1 = world.Leaf(at::randn({4, 4}));
    const int w2 = world.Leaf(at::randn({4, 4}));
    const int x = world.Leaf(at::randn({2, 4}));
    if (hooked) {
      world.ReplacingPreHook(w1, Changes(world, "w1 fifth", 0.2, 0));
      world.ReplacingPreHook(w1, Changes(world, "w1 less", 1, -0.3));
      world.TensorHook(w2, [](const at::Tensor& g) { return g - 2; });
      world.TensorHook(w2, [](const at::Tensor& g) { return g * 0.5; });
    }
    world.Backward(world.Call(Linear(), {world.Call(Linear(), {x, w1})[0], w2}));
    return GradsOf(world, {w1, w2});
  };
  const Outcome hooked = ExpectThreeWays([run](World& world) { return run(world, true); }, /*captures=*/1);
  const Outcome plain = ExpectThreeWays([run](World& world) { return run(world, false); }, /*captures=*/1);
  EXPECT_TRUE(at::allclose(hooked.gradients[0], plain.gradients[0] / 5 - 0.3));
  EXPECT_TRUE(at::allclose(hooked.gradients[1], (plain.gradients[1] - 2) / 2));
  EXPECT_THAT(hooked.log, ElementsAre("w1 fifth", "w1 less"));
}

TEST(HookOrderCasesTest, RandomNumbersThatNobodyUsesAreDrawn) {
  const Outcome outcome = ExpectThreeWays(
      [](World& world) {
        Tensors all;
        for (int round = 0; round < 2; ++round) {
          const int x = world.Leaf(at::randn({2, 4}));
          const auto draws = [](const at::Tensor& g) {
            at::randn({10, 10});
            return g * 2;
          };
          const int n = world.Node(
              "Draws", x, [](const at::Tensor& t) { return t * 2; }, draws);
          world.Backward(world.Call(Total(), {n}));
          Append(all, GradsOf(world, {x}));
          all.push_back(at::randn({3}));
        }
        return all;
      },
      /*captures=*/1);
  EXPECT_FALSE(at::equal(outcome.gradients[1], outcome.gradients[3]));
}

// AG-036.
TEST(HookOrderCasesTest, TheNewestNodeComesFirstAndALeafAsSoonAsItsGradientIsWhole) {
  const auto function = [](const std::string& name, const TensorFunction& f, int arguments) -> const CompiledFunction& {
    return Compiled("hooked " + name, f, std::vector<std::vector<int64_t>>(static_cast<size_t>(arguments), {2, 2}));
  };
  for (const bool leaf_waits : {false, true}) {
    const Outcome outcome = ExpectThreeWays(
        [&](World& world) {
          const CompiledFunction& sine = function(
              "sine", [](const Tensors& in) -> Tensors { return {in[0].sin()}; }, 1);
          const CompiledFunction& cosine = function(
              "cosine", [](const Tensors& in) -> Tensors { return {in[0].cos()}; }, 1);
          const CompiledFunction& product = function(
              "product", [](const Tensors& in) -> Tensors { return {in[0] * in[1]}; }, 2);
          const int a = world.Leaf(at::randn({2, 2}));
          const int b = leaf_waits ? world.Call(sine, {a})[0] : world.Leaf(at::randn({2, 2}));
          const int c = leaf_waits ? world.Call(cosine, {a})[0] : world.Call(sine, {b})[0];
          const int d = leaf_waits ? b : world.Call(cosine, {a})[0];
          const int out = world.Call(product, {c, d})[0];
          for (const auto& [name, value] :
               std::vector<std::pair<std::string, int>>{{"a", a}, {"b", b}, {"c", c}, {"d", d}, {"out", out}}) {
            if (name != "d" || !leaf_waits) world.TensorHook(value, Scaled(world, name, 1));
          }
          world.Backward({out});
          return GradsOf(world, {a});
        },
        /*captures=*/1);
    const std::vector<std::string> order = leaf_waits ? std::vector<std::string>{"out", "c", "b", "a"}
                                                      : std::vector<std::string>{"out", "d", "a", "c", "b"};
    EXPECT_EQ(outcome.log, order);
  }
}

// AG-037: by creation, whatever the order of the roots. The hooks run directly before their nodes.
TEST(HookOrderCasesTest, NodesOfSeveralRootsRunInTheReverseOrderOfTheirCreation) {
  for (const bool accumulates : {false, true}) {
    const Outcome outcome = ExpectThreeWays(
        [accumulates](World& world) {
          const auto function = [](const std::string& name, const TensorFunction& f) -> const CompiledFunction& {
            return Compiled(name + " of a matrix", f, {{2, 2}});
          };
          const CompiledFunction& sine = function("sine", [](const Tensors& in) -> Tensors { return {in[0].sin()}; });
          const CompiledFunction& cosine =
              function("cosine", [](const Tensors& in) -> Tensors { return {in[0].cos()}; });
          const CompiledFunction& doubled =
              function("doubled", [](const Tensors& in) -> Tensors { return {in[0] * 2}; });
          const int a = world.Leaf(at::randn({2, 2}));
          const int b = world.Call(doubled, {a})[0];
          const int o1 = world.Call(sine, {b})[0];
          const int o2 = world.Call(cosine, {b})[0];
          const int o3 = world.Call(cosine, {b})[0];
          for (const auto& [value, name] : std::vector<std::pair<int, std::string>>{
                   {a, "Acc"}, {b, "Mul"}, {o1, "Sin"}, {o2, "Cos(o2)"}, {o3, "Cos(o3)"}}) {
            world.TensorHook(value, Scaled(world, name, 1));
          }
          if (!accumulates) return world.Grad({o1, o3, o2}, {a});
          world.Backward({o1, o3, o2});
          return GradsOf(world, {a});
        },
        /*captures=*/1);
    EXPECT_THAT(outcome.log, ElementsAre("Cos(o3)", "Cos(o2)", "Sin", "Mul", "Acc"));
  }
}

// Returns the lines of the ops of a method.
std::vector<std::string> OpsOf(const std::string& method) {
  std::vector<std::string> ops;
  for (const absl::string_view line : absl::StrSplit(method, '\n')) {
    if (absl::StrContains(line, "  // ")) ops.emplace_back(line);
  }
  return ops;
}

// CA-037. The gradients are set, so that accumulations are ops of the method.
TEST(HookOrderCasesTest, AccumulationsStandBehindTheOpsOfTheirGradients) {
  ExpectThreeWays(
      [](World& world) {
        const std::vector<std::vector<int64_t>> sizes = {{1, 2, 7, 7}, {3, 2, 3, 3}, {3}, {2, 3, 3, 3}, {2}};
        const CompiledFunction& convolutions = Compiled(
            "two convolutions",
            [](const Tensors& in) -> Tensors { return {at::conv2d(at::conv2d(in[0], in[1], in[2]), in[3], in[4])}; },
            sizes);
        std::vector<int> leaves;
        for (const std::vector<int64_t>& size : sizes) leaves.push_back(world.Leaf(at::randn(size)));
        const std::vector<int> parameters(leaves.begin() + 1, leaves.end());
        for (const int leaf : parameters) world.SetGrad(leaf, at::randn(world.Value(leaf).sizes()));
        world.Backward(world.Call(convolutions, leaves), false, parameters);
        return GradsOf(world, parameters);
      },
      /*captures=*/1);
  const std::string& text = CompiledAutograd::Text();
  const std::vector<std::string> ops = OpsOf(text);
  int accumulations = 0;
  for (size_t i = 1; i < ops.size(); ++i) {
    if (!absl::StrContains(ops[i], "AccumulateGrad")) continue;
    ++accumulations;
    // "  %9: f32[3] = expr(%1, %8) ...": the gradient is the second operand.
    const size_t begin = ops[i].find(", %") + 2;
    const std::string gradient = ops[i].substr(begin, ops[i].find(')', begin) - begin);
    EXPECT_TRUE(absl::StartsWith(ops[i - 1], absl::StrCat("  ", gradient, ":"))) << text;
  }
  EXPECT_EQ(accumulations, 4) << text;
}

TEST(HookOrderCasesTest, StepsAreInTheEnginesOrder) {
  ExpectThreeWays(
      [](World& world) {
        const int x = world.Leaf(at::randn({2, 4}));
        std::vector<int> leaves;
        int value = x;
        for (int layer = 0; layer < 2; ++layer) {
          const int w = world.Leaf(at::randn({4, 4}));
          const int b = world.Leaf(at::randn({4}));
          const int turned = world.View(w, view::Permute{.dims = {1, 0}});
          value = world.Call(Relu(), {world.Call(Addmm(), {b, value, turned})[0]})[0];
          leaves.push_back(w);
          leaves.push_back(b);
        }
        world.Backward(world.Call(Total(), {value}), false, leaves);
        return GradsOf(world, leaves);
      },
      /*captures=*/1);
  EXPECT_EQ(CompiledAutograd::Steps(), R"(segment of 11 nodes
0 total.CompiledBackward('forward') -> 1
1 relu.CompiledBackward('forward') -> 2
2 addmm.CompiledBackward('forward') -> 3 6 4
3 AccumulateGrad ->
4 PermuteBackward -> 5
5 AccumulateGrad ->
6 relu.CompiledBackward('forward') -> 7
7 addmm.CompiledBackward('forward') -> 8 9
8 AccumulateGrad ->
9 PermuteBackward -> 10
10 AccumulateGrad ->
)");  // the leaves are b2, W2, b1, W1
}

}  // namespace
}  // namespace cotan::testing
