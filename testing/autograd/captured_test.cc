// SPDX-License-Identifier: Apache-2.0

// Runs each case in LibTorch eager, node by node and captured. Gradients of the last two are equal bit for bit, hook
// traces equal among all three.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/compiled_autograd/compiled_autograd.h"
#include "testing/autograd/three_ways.h"

namespace cotan::testing {
namespace {

using ::testing::HasSubstr;

const CompiledFunction& Mlp() {
  static const CompiledFunction& function = *new CompiledFunction(
      [](const Tensors& in) -> Tensors {
        return {at::linear(at::relu(at::linear(in[0], in[1], in[2])), in[3], in[4])};
      },
      {at::randn({2, 4}), at::randn({8, 4}), at::randn({8}), at::randn({3, 8}), at::randn({3})});
  return function;
}

const CompiledFunction& DynamicMlp() {
  static const CompiledFunction& function = *new CompiledFunction(
      [](const Tensors& in) -> Tensors {
        return {at::linear(at::relu(at::linear(in[0], in[1], in[2])), in[3], in[4])};
      },
      {at::randn({6, 4}), at::randn({8, 4}), at::randn({8}), at::randn({3, 8}), at::randn({3})}, /*dynamic=*/true);
  return function;
}

// f(x) = sin x, of a matrix.
const CompiledFunction& Sin() {
  static const CompiledFunction& function =
      *new CompiledFunction([](const Tensors& in) -> Tensors { return {at::sin(in[0])}; }, {at::randn({4, 4})});
  return function;
}

const CompiledFunction& Total() {
  static const CompiledFunction& function =
      *new CompiledFunction([](const Tensors& in) -> Tensors { return {in[0].sum()}; }, {at::randn({2, 3})});
  return function;
}

std::string Text(const at::Tensor& tensor) {
  std::ostringstream text;
  if (tensor.defined()) text << " " << tensor.sum().item<float>();
  return tensor.defined() ? text.str() : " undefined";
}

std::vector<int> MlpLeaves(World& world, int64_t batch = 2) {
  std::vector<int> leaves;
  for (const std::vector<int64_t>& sizes : std::vector<std::vector<int64_t>>{{batch, 4}, {8, 4}, {8}, {3, 8}, {3}}) {
    leaves.push_back(world.Leaf(at::randn(sizes)));
  }
  return leaves;
}

TEST(CapturedTest, TwoProgramsAreOneCapturedBackward) {
  ExpectThreeWays(
      [](World& world) {
        Tensors grads;
        for (int round = 0; round < 3; ++round) {
          const std::vector<int> leaves = MlpLeaves(world);
          world.Backward(world.Call(Total(), world.Call(Mlp(), leaves)));
          Append(grads, GradsOf(world, leaves));
        }
        return grads;
      },
      /*captures=*/1);
  EXPECT_EQ(CompiledAutograd::Stats().segments, 3);
  EXPECT_EQ(CompiledAutograd::Stats().called_nodes, 0);
  EXPECT_THAT(CompiledAutograd::Text(), HasSubstr("matmul"));
}

TEST(CapturedTest, RunningSumsOfGradientsAreEqual) {
  ExpectThreeWays(
      [](World& world) {
        const std::vector<int> leaves = MlpLeaves(world);
        Tensors grads;
        for (int round = 0; round < 10; ++round) {
          world.Backward(world.Call(Mlp(), leaves));
          Append(grads, GradsOf(world, leaves));
        }
        return grads;
      },
      /*captures=*/2);  // without and with gradients
}

TEST(CapturedTest, ABackwardIsSplicedForEachOfThreeCalls) {
  ExpectThreeWays(
      [](World& world) {
        const int x = world.Leaf(at::randn({4, 4}));
        const int y = world.Leaf(at::randn({4, 4}));
        const int z = world.Call(Sin(), {world.Call(Sin(), {x})[0]})[0];
        const int w = world.Call(Sin(), {y})[0];
        world.Backward({z, w});
        return GradsOf(world, {x, y});
      },
      /*captures=*/1);
  EXPECT_EQ(CompiledAutograd::Stats().segments, 1);
}

TEST(CapturedTest, GradReturnsGradientsAndLeavesGradUndefined) {
  ExpectThreeWays(
      [](World& world) {
        Tensors all;
        for (int round = 0; round < 3; ++round) {
          const std::vector<int> leaves = MlpLeaves(world);
          const int hidden = world.Call(Mlp(), leaves)[0];
          Append(all, world.Grad(world.Call(Total(), {hidden}), {leaves[1], hidden}));
          Append(all, GradsOf(world, leaves));
        }
        return all;
      },
      /*captures=*/1);
}

TEST(CapturedTest, WhatIsAskedForIsPartOfTheKey) {
  ExpectThreeWays(
      [](World& world) {
        Tensors all;
        for (const size_t asked : {0, 1, 0}) {
          const std::vector<int> leaves = MlpLeaves(world);
          world.Backward(world.Call(Mlp(), leaves), false, {leaves[asked]});
          Append(all, GradsOf(world, leaves));
        }
        return all;
      },
      /*captures=*/2);
}

TEST(CapturedTest, ANodeThatLeadsToNoInputIsNotRun) {
  ExpectThreeWays(
      [](World& world) {
        const int x = world.Leaf(at::randn({4, 4}));
        const int a = world.Leaf(at::randn({4, 4}));
        const int u = world.Node(
            "U", a, [](const at::Tensor& t) { return t * 2; }, Scaled(world, "U", 2));
        world.Backward({world.Call(Sin(), {x})[0], u}, false, {x});
        return GradsOf(world, {x, a});
      },
      /*captures=*/1);
}

TEST(CapturedTest, ViewsAreOps) {
  ExpectThreeWays(
      [](World& world) {
        Tensors all;
        for (int round = 0; round < 2; ++round) {
          const int x = world.Leaf(at::randn({4, 4}));
          const int row = world.View(x, view::Select{.dim = 0, .index = 1});
          const int wide = world.View(row, view::Expand{.sizes = {4, 4}});
          const int turned = world.View(x, view::Permute{.dims = {1, 0}});
          const int part = world.View(world.View(turned, view::Slice{.dim = 0, .start = 1, .end = 3}),
                                      view::Expand{.sizes = {2, 4}});
          world.Backward({world.Call(Sin(), {wide})[0], world.Call(Sin(), {turned})[0], part});
          Append(all, GradsOf(world, {x}));
        }
        return all;
      },
      /*captures=*/1);
  EXPECT_EQ(CompiledAutograd::Stats().called_nodes, 0);
}

TEST(CapturedTest, InPlaceCopiesIntoViews) {
  ExpectThreeWays(
      [](World& world) {
        Tensors all;
        for (int round = 0; round < 2; ++round) {
          const int x = world.Leaf(at::randn({4, 4}));
          const int y = world.Leaf(at::randn({4}));
          const int base = world.Call(Sin(), {x})[0];
          world.Copy(world.View(base, view::Select{.dim = 0, .index = 2}), y);
          world.Backward(world.Call(Sin(), {base}));
          Append(all, GradsOf(world, {x, y}));
        }
        return all;
      },
      /*captures=*/1);
}

TEST(CapturedTest, HooksOfAllKindsRunInLibTorchsOrder) {
  ExpectThreeWays(
      [](World& world) {
        Tensors all;
        for (int round = 0; round < 3; ++round) {
          const int x = world.Leaf(at::randn({4, 4}));
          const int a = world.Call(Sin(), {x})[0];
          const auto note = [&world](std::string name) {
            return [&world, name](const Tensors&, const Tensors& incoming) {
              world.log.push_back(absl::StrCat(name, Text(incoming[0])));
            };
          };
          const int n = world.Node(
              "N", a, [](const at::Tensor& t) { return t * 2; }, Scaled(world, "N", 2));
          world.PreHook(n, note("pre N"));
          world.PostHook(n, note("post N"));
          world.TensorHook(a, Scaled(world, "tensor a", 3));
          world.TensorHook(x, Scaled(world, "tensor x", 0.5));
          world.PreHook(x, note("pre Acc"));
          world.PostHook(x, note("post Acc"));
          world.PostAccumulateHook(x, [&world] { world.log.push_back("post-acc x"); });
          world.Backward({n});
          Append(all, GradsOf(world, {x}));
        }
        return all;
      },
      /*captures=*/1);
}

TEST(CapturedTest, ATensorHookDoublesTheGradientOfOneWeight) {
  ExpectThreeWays(
      [](World& world) {
        Tensors all;
        for (int round = 0; round < 3; ++round) {
          const std::vector<int> leaves = MlpLeaves(world);
          world.TensorHook(leaves[1], Scaled(world, "w", 2));
          world.Backward(world.Call(Mlp(), leaves));
          Append(all, GradsOf(world, leaves));
        }
        return all;
      },
      /*captures=*/1);
}

TEST(CapturedTest, RetainedGradientsOfProgramResults) {
  ExpectThreeWays(
      [](World& world) {
        const std::vector<int> leaves = MlpLeaves(world);
        const int hidden = world.Call(Mlp(), leaves)[0];
        world.RetainGrad(hidden);
        world.TensorHook(hidden, Scaled(world, "hidden", 2));
        world.Backward(world.Call(Total(), {hidden}));
        return GradsOf(world, {hidden, leaves[0]});
      },
      /*captures=*/1);
}

TEST(CapturedTest, UserNodesBetweenProgramsAreCalled) {
  ExpectThreeWays(
      [](World& world) {
        Tensors all;
        const std::vector<std::pair<std::string, double>> nodes = {{"N1", 3}, {"N2", 3}, {"N3", 30}};
        for (size_t round = 0; round < 6; ++round) {
          const int x = world.Leaf(at::randn({4, 4}));
          const auto& [name, factor] = nodes[round % 3];
          const int a = world.Call(Sin(), {x})[0];
          const int n = world.Node(
              name, a, [factor = factor](const at::Tensor& t) { return t * factor; }, Scaled(world, name, factor));
          world.Backward(world.Call(Sin(), {n}));
          Append(all, GradsOf(world, {x}));
        }
        return all;
      },
      /*captures=*/3);  // the node's name is part of the key
  EXPECT_EQ(CompiledAutograd::Stats().called_nodes, 6);
}

TEST(CapturedTest, AUserNodeWithoutAGradientGivesNone) {
  ExpectThreeWays(
      [](World& world) {
        const int x = world.Leaf(at::randn({4, 4}));
        const int a = world.Call(Sin(), {x})[0];
        const int n = world.Node(
            "None", a, [](const at::Tensor& t) { return t * 3; }, [](const at::Tensor&) { return at::Tensor(); });
        world.Backward(world.Call(Sin(), {n}));
        return GradsOf(world, {x});
      },
      /*captures=*/1);
}

TEST(CapturedTest, BatchesOfManySizesNeedOneCapture) {
  ExpectThreeWays(
      [](World& world) {
        Tensors all;
        std::vector<int> leaves = MlpLeaves(world);
        for (int64_t batch = 10; batch <= 90; batch += 10) {
          leaves[0] = world.Leaf(at::randn({batch, 4}));
          for (const int leaf : leaves) world.SetGrad(leaf, at::Tensor());
          const int y = world.Call(DynamicMlp(), leaves)[0];
          world.Backward({world.View(y, view::View{.sizes = {batch * 3}})});
          Append(all, GradsOf(world, leaves));
        }
        return all;
      },
      /*captures=*/1);
  EXPECT_THAT(CompiledAutograd::Reasons()[0], HasSubstr("new node"));
  EXPECT_EQ(CompiledAutograd::Stats().plans, 9);
}

TEST(CapturedTest, ViewsOfDynamicSizesNeedOneCapture) {
  ExpectThreeWays(
      [](World& world) {
        const CompiledFunction& linear = Compiled(
            "dynamic linear", [](const Tensors& in) -> Tensors { return {at::linear(in[0], in[1]).relu()}; },
            {{6, 4}, {4, 4}}, /*dynamic=*/true);
        const CompiledFunction& total = Compiled(
            "dynamic total", [](const Tensors& in) -> Tensors { return {in[0].sin().sum()}; }, {{24}}, true);
        Tensors all;
        const int w = world.Leaf(at::randn({4, 4}));
        for (const auto& [batch, rows] : std::vector<std::pair<int64_t, int64_t>>{{10, 2}, {20, 4}, {30, 8}}) {
          world.SetGrad(w, at::Tensor());
          const int x = world.Leaf(at::randn({batch, 4}));
          const int wide = world.View(world.Call(linear, {x, w})[0], view::View{.sizes = {rows, batch * 4 / rows}});
          world.Backward(world.Call(total, {world.View(wide, view::View{.sizes = {batch * 4}})}));
          Append(all, GradsOf(world, {x, w}));
        }
        return all;
      },
      /*captures=*/1);
  EXPECT_EQ(CompiledAutograd::Stats().plans, 3);
}

TEST(CapturedTest, SizesThatAreEqualByChanceAreNotOneSize) {
  ExpectThreeWays(
      [](World& world) {
        Tensors all;
        std::vector<int> leaves = MlpLeaves(world);
        for (const auto& [i, j] : std::vector<std::pair<int64_t, int64_t>>{{10, 10}, {11, 10}, {12, 11}, {7, 30}}) {
          for (const int leaf : leaves) world.SetGrad(leaf, at::Tensor());
          std::vector<int> roots;
          Tensors inputs;
          for (const int64_t batch : {i, j}) {
            leaves[0] = world.Leaf(at::randn({batch, 4}));
            roots.push_back(world.Call(DynamicMlp(), leaves)[0]);
          }
          world.Backward(roots);
          Append(all, GradsOf(world, leaves));
        }
        return all;
      },
      /*captures=*/1);
}

TEST(CapturedTest, OneRetainedGraphIsCapturedOnce) {
  ExpectThreeWays(
      [](World& world) {
        Tensors all;
        const int x = world.Leaf(at::randn({4, 4}));
        const int y = world.Call(Sin(), {x})[0];
        for (int round = 0; round < 5; ++round) {
          world.SetGrad(x, at::Tensor());
          world.Backward({y}, /*retain_graph=*/true);
          Append(all, GradsOf(world, {x}));
        }
        return all;
      },
      /*captures=*/1);
}

TEST(CapturedTest, GradientsThatTheUserSetIncrease) {
  ExpectThreeWays(
      [](World& world) {
        Tensors all;
        const std::vector<int> leaves = MlpLeaves(world);
        for (int round = 0; round < 4; ++round) {
          for (const int leaf : leaves) world.SetGrad(leaf, at::randn(world.Value(leaf).sizes()));
          world.Backward(world.Call(Mlp(), leaves));
          Append(all, GradsOf(world, leaves));
        }
        return all;
      },
      /*captures=*/1);
}

}  // namespace
}  // namespace cotan::testing
