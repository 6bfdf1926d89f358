// SPDX-License-Identifier: Apache-2.0

// Sums of gradients and what leaves get, of compiled programs: rows C3 of cases.txt.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/autograd/variable.h"
#include "testing/autograd/three_ways.h"

namespace cotan::testing {
namespace {

const CompiledFunction& Sum() {
  return Compiled("sum of two", [](const Tensors& in) -> Tensors { return {in[0] + in[1]}; }, {{2, 2}, {2, 2}});
}
const CompiledFunction& Product() {
  return Compiled("product", [](const Tensors& in) -> Tensors { return {in[0] * in[1]}; }, {{2, 2}, {2, 2}});
}
const CompiledFunction& Doubled() {
  return Compiled("doubled", [](const Tensors& in) -> Tensors { return {in[0] * 2}; }, {{2, 2}});
}
const CompiledFunction& PlusTwo() {
  return Compiled("plus two", [](const Tensors& in) -> Tensors { return {in[0] + 2}; }, {{2, 2}});
}

at::Tensor Full(double value) { return at::full({2, 2}, value); }

TEST(AccumulateCasesTest, ALeafIsARootAndItsGradIncreases) {
  const Outcome outcome = ExpectThreeWays(
      [](World& world) {
        const int x = world.Leaf(Full(1.5));
        world.SetGrad(x, Full(1.5));
        world.BackwardFrom({x}, {Full(1.5)});
        return GradsOf(world, {x});
      },
      /*captures=*/1);
  EXPECT_TRUE(at::equal(outcome.gradients[0], Full(3)));
}

TEST(AccumulateCasesTest, AGradientInDoubleOfANodeIsCastToItsLeaf) {
  const Outcome outcome = ExpectThreeWays(
      [](World& world) {
        const int x = world.Leaf(at::randn({2, 2}));
        const int n = world.Node(
            "Double", x, [](const at::Tensor& t) { return t * 2; },
            [](const at::Tensor& gradient) { return gradient.to(at::kDouble) * 2; });
        world.Backward(world.Call(Doubled(), {n}));
        return GradsOf(world, {x});
      },
      /*captures=*/1);
  EXPECT_EQ(outcome.gradients[0].scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(outcome.gradients[0], Full(4)));
}

TEST(AccumulateCasesTest, EmptyRowsGiveZerosToWhatIsBroadcast) {
  const Outcome outcome = ExpectThreeWays(
      [](World& world) {
        const CompiledFunction& sum = Compiled(
            "empty sum", [](const Tensors& in) -> Tensors { return {(in[0] + in[1]).sum()}; }, {{4, 0}, {4, 1}});
        const int a = world.Leaf(at::randn({4, 0}));
        const int b = world.Leaf(at::randn({4, 1}));
        world.Backward(world.Call(sum, {a, b}));
        return GradsOf(world, {a, b});
      },
      /*captures=*/1);
  EXPECT_EQ(outcome.gradients[0].sizes(), (std::vector<int64_t>{4, 0}));
  EXPECT_TRUE(at::equal(outcome.gradients[1], at::zeros({4, 1})));
}

TEST(AccumulateCasesTest, OnlyWhatIsAskedForGetsAGradientComputedValuesToo) {
  const Outcome outcome = ExpectThreeWays(
      [](World& world) {
        const CompiledFunction& polynomial = Compiled(
            "polynomial", [](const Tensors& in) -> Tensors { return {in[0] * in[0] + in[1] * in[0] + in[1] * in[1]}; },
            {{2, 2}, {2, 2}});
        const CompiledFunction& once =
            Compiled("times one", [](const Tensors& in) -> Tensors { return {in[0] * 1}; }, {{2, 2}});
        const int x = world.Leaf(at::randn({2, 2})), y = world.Leaf(at::randn({2, 2}));
        const int z = world.Leaf(at::randn({2, 2}));  // not part of the graph
        const int computed = world.Call(once, {x})[0];
        const int out = world.Call(polynomial, {computed, y})[0];
        Tensors all;
        for (const std::vector<int>& inputs : std::vector<std::vector<int>>{{x, y, computed}, {y}, {x}, {z}}) {
          world.Backward({out}, /*retain_graph=*/true, inputs);
          Append(all, GradsOf(world, {x, y, computed, z}));
        }
        Append(all, {2 * world.Value(x) + world.Value(y), world.Value(x) + 2 * world.Value(y)});
        return all;
      },
      /*captures=*/3);
  const Tensors& g = outcome.gradients;
  const at::Tensor dx = g[16].detach(), dy = g[17].detach();
  // As in LibTorch, a computed value that was asked for retains its gradient in later backwards through it.
  const std::vector<Tensors> expected = {
      {dx, dy, dx}, {dx, 2 * dy, dx}, {2 * dx, 2 * dy, 2 * dx}, {2 * dx, 2 * dy, 2 * dx}};
  for (size_t i = 0; i < expected.size(); ++i) {
    for (size_t k = 0; k < 3; ++k) EXPECT_TRUE(at::allclose(g[4 * i + k], expected[i][k])) << i << " " << k;
    EXPECT_FALSE(g[4 * i + 3].defined()) << i;
  }
}

TEST(AccumulateCasesTest, TwoRootsShareANode) {
  const Outcome outcome = ExpectThreeWays(
      [](World& world) {
        std::vector<int> leaves;
        for (int i = 0; i < 5; ++i) leaves.push_back(world.Leaf(at::randn({2, 2})));
        const int q2 = world.Call(Doubled(), {leaves[4]})[0];
        const int z = world.Call(Sum(), {world.Call(Sum(), {leaves[0], leaves[1]})[0], q2})[0];
        const int c = world.Call(Sum(), {world.Call(Product(), {leaves[2], leaves[3]})[0], q2})[0];
        world.BackwardFrom({z, c}, {Full(3), Full(5)});
        Tensors all = GradsOf(world, leaves);
        Append(all, {world.Value(leaves[2]), world.Value(leaves[3])});
        return all;
      },
      /*captures=*/1);
  const Tensors& g = outcome.gradients;
  EXPECT_TRUE(at::equal(g[0], Full(3)) && at::equal(g[1], Full(3)));
  EXPECT_TRUE(at::allclose(g[2], 5 * g[6]) && at::allclose(g[3], 5 * g[5]));
  EXPECT_TRUE(at::equal(g[4], Full(16)));
}

TEST(AccumulateCasesTest, OneRootMayBeGivenTwice) {
  const Outcome outcome = ExpectThreeWays(
      [](World& world) {
        const int a = world.Leaf(at::randn({2, 2})), b = world.Leaf(at::randn({2, 2}));
        const int x = world.Call(Product(), {a, b})[0];
        world.BackwardFrom({x, x}, {Full(3), Full(3)});
        Tensors all = GradsOf(world, {a, b});
        Append(all, {world.Value(a), world.Value(b)});
        return all;
      },
      /*captures=*/1);
  EXPECT_TRUE(at::allclose(outcome.gradients[0], 6 * outcome.gradients[3]));
  EXPECT_TRUE(at::allclose(outcome.gradients[1], 6 * outcome.gradients[2]));
}

// Gradients of intermediate values in groups, then the backward from these.
TEST(AccumulateCasesTest, BothHalvesOfABackwardAreTheWhole) {
  constexpr int kLeaves = 10;
  const Outcome outcome = ExpectThreeWays(
      [](World& world) {
        const CompiledFunction& weighted = Compiled(
            "weighted",
            [](const Tensors& in) -> Tensors {
              at::Tensor total = at::zeros({});
              for (size_t i = 0; i < in.size(); ++i) total = total + static_cast<double>(i) * in[i].sum();
              return {total};
            },
            std::vector<std::vector<int64_t>>(kLeaves, {5, 5}));
        std::vector<int> leaves, middle;
        for (int i = 0; i < kLeaves; ++i) {
          const double factor = i;
          const CompiledFunction& square =
              Compiled(absl::StrCat("square ", i),
                       [factor](const Tensors& in) -> Tensors { return {factor * in[0] + in[0] * in[0]}; }, {{5, 5}});
          leaves.push_back(world.Leaf(at::zeros({5, 5})));
          middle.push_back(world.Call(square, {leaves.back()})[0]);
        }
        const int loss = world.Call(weighted, middle)[0];
        Tensors gradients;
        for (int i = 0; i < kLeaves; i += 2) {
          Append(gradients, world.Grad({loss}, {middle[static_cast<size_t>(i)], middle[static_cast<size_t>(i) + 1]}));
        }
        world.BackwardFrom(middle, gradients);
        return GradsOf(world, leaves);
      },
      /*captures=*/6);
  for (int i = 0; i < kLeaves; ++i) {
    EXPECT_TRUE(at::equal(outcome.gradients[static_cast<size_t>(i)], at::full({5, 5}, i * i))) << i;
  }
}

TEST(AccumulateCasesTest, AGradOfAnotherTypeIsRefused) {
  Variable x = *Variable::Leaf(*Tensor::From<float>({1, 2}, {2}));
  const Variable grad(*Tensor::From<float>({3, 4}, {2}));
  ASSERT_TRUE(x.SetGrad(grad).ok());
  for (const Variable& other :
       {Variable(*Tensor::From<float>({3}, {1})), Variable(*Tensor::From<double>({3, 4}, {2})), x, Variable()}) {
    EXPECT_EQ(x.SetGrad(other).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(x.grad().is_same(grad));
  }
  x.ClearGrad();
  EXPECT_FALSE(x.grad().defined());
}

// One tangent arrives at several places, none of which may add to it in place.
TEST(AccumulateCasesTest, ASharedTangentIsNotAddedToInPlace) {
  const Outcome outcome = ExpectThreeWays(
      [](World& world) {
        const CompiledFunction& three =
            Compiled("sum of three", [](const Tensors& in) -> Tensors { return {in[0] + in[1] + in[2]}; },
                     {{2, 2}, {2, 2}, {2, 2}});
        const int x = world.Leaf(at::randn({2, 2})), y = world.Leaf(at::randn({2, 2}));
        std::vector<int> parts = {world.Call(PlusTwo(), {x})[0], world.Call(PlusTwo(), {y})[0],
                                  world.Call(PlusTwo(), {x})[0]};
        const int sum = world.Call(three, parts)[0];
        for (int& part : parts) {
          for (int i = 0; i < 4; ++i) part = world.Call(Sum(), {part, part})[0];
        }
        world.Backward(world.Call(Sum(), {sum, world.Call(three, parts)[0]}));
        return GradsOf(world, {x, y});
      },
      /*captures=*/1);
  EXPECT_TRUE(at::equal(outcome.gradients[0], Full(34)));
  EXPECT_TRUE(at::equal(outcome.gradients[1], Full(17)));
}

}  // namespace
}  // namespace cotan::testing
