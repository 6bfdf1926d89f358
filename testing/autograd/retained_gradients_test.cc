// SPDX-License-Identifier: Apache-2.0

// Gradients that values retain, outside and inside of compiled functions: rows C3 and C4 of cases.txt.
#include <gtest/gtest.h>

#include <vector>

#include "testing/autograd/matrix_functions.h"
#include "testing/autograd/three_ways.h"

namespace cotan::testing {
namespace {

const CompiledFunction& Cosine() {
  return Compiled("cosine", [](const Tensors& in) -> Tensors { return {in[0].cos()}; }, {{3}});
}

// AG-018: whether RetainGrad() comes before its hooks or after them.
TEST(RetainedGradientsTest, TheRetainedGradientIsTheOneAfterAllHooks) {
  for (const bool retains_first : {false, true}) {
    const Outcome outcome = ExpectThreeWays(
        [retains_first](World& world) {
          const int a = world.Leaf(Full(1));
          const int b = world.Call(Cloned(), {a})[0];
          if (!retains_first) world.TensorHook(b, Scaled(world, "first", 2));
          world.RetainGrad(b);
          world.TensorHook(b, Scaled(world, "second", 2));
          world.Backward(world.Call(Cloned(), {b}));
          return GradsOf(world, {a, b});
        },
        /*captures=*/1);
    for (const at::Tensor& grad : outcome.gradients) EXPECT_TRUE(at::equal(grad, Full(retains_first ? 2 : 4)));
  }
}

TEST(RetainedGradientsTest, RetainedGradientsOfAValueIncreaseAndALeafHasNone) {
  const Outcome outcome = ExpectThreeWays(
      [](World& world) {
        const CompiledFunction& tripled =
            Compiled("tripled", [](const Tensors& in) -> Tensors { return {in[0] * 3}; }, {{2, 2}});
        const CompiledFunction& squares =
            Compiled("squares", [](const Tensors& in) -> Tensors { return {(in[0] * in[0]).sum()}; }, {{2, 2}});
        const int x = world.Leaf(at::randn({2, 2}));
        const int h = world.Call(tripled, {x})[0];
        world.RetainGrad(h);
        world.RetainGrad(h);
        const int out = world.Call(squares, {h})[0];
        Tensors all = {world.Value(x).detach().clone(), world.Value(h).detach().clone()};
        for (int i = 0; i < 2; ++i) {
          world.Backward({out}, /*retain_graph=*/true);
          Append(all, GradsOf(world, {h}));
        }
        world.SetGrad(x, Full(0));
        world.RetainGrad(x);
        world.Backward({out}, /*retain_graph=*/true);
        Append(all, GradsOf(world, {x}));
        return all;
      },
      /*captures=*/2);
  const Tensors& g = outcome.gradients;
  EXPECT_TRUE(at::allclose(g[2], 2 * g[1]) && at::allclose(g[3], 4 * g[1]));
  EXPECT_TRUE(at::allclose(g[4], 18 * g[0]));
}

TEST(RetainedGradientsTest, ARetainedGradientIsThatOfTheLastVersion) {
  const Outcome outcome = ExpectThreeWays(
      [](World& world) {
        const int x = world.Call(Doubled(), {world.Leaf(at::randn({2, 2}))})[0];
        world.RetainGrad(x);
        const int rows = world.View(x, view::Slice{.dim = 0, .start = 0, .end = 2, .step = 1});
        world.Call(DoublesInPlace(), {rows});
        world.Call(DoublesInPlace(), {x});
        world.Backward(world.Call(Total(), {x}));
        return GradsOf(world, {x});
      },
      /*captures=*/1);
  EXPECT_TRUE(at::equal(outcome.gradients[0], Full(1)));
}

TEST(RetainedGradientsTest, ResultsOfOneNodeRetainTheirGradientsThroughAWrite) {
  const Outcome outcome = ExpectThreeWays(
      [](World& world) {
        const int b = world.Leaf(at::randn({2, 2}));
        const std::vector<int> parts = world.Call(TwiceAndThrice(), {b});
        for (const int part : parts) world.RetainGrad(part);
        world.Call(DoublesInPlace(), {parts[0]});
        world.Backward(world.Call(TotalOfTwo(), parts));
        return GradsOf(world, {parts[0], parts[1], b});
      },
      /*captures=*/1);
  EXPECT_TRUE(at::equal(outcome.gradients[0], Full(1)) && at::equal(outcome.gradients[1], Full(1)));
  EXPECT_TRUE(at::equal(outcome.gradients[2], Full(7)));
}

// x, y = cos(x), and the results of `f`, which is called with y and x.
std::vector<int> CallWithCosine(World& world, const CompiledFunction& f) {
  const int x = world.Leaf(at::linspace(0.1, 1, 3));
  std::vector<int> values = {x, world.Call(Cosine(), {x})[0]};
  for (const int result : world.Call(f, {values[1], x})) values.push_back(result);
  return values;
}

// #146212: retain_grad() inside of the function; grad() is that of the caller's variable.
TEST(RetainedGradientsTest, AFunctionRetainsTheWholeGradientOfItsArgumentAndOfItsResult) {
  const auto retains = [](const Tensors& in) -> Tensors {
    in[0].retain_grad();
    const at::Tensor h = in[0] * 2;
    h.retain_grad();
    return {in[0].sin() + in[1], h};
  };
  const CompiledFunction f = CompileFor(retains, {Example({3}) * 1, Example({3})});
  ExpectThreeWays(
      [&f](World& world) {
        const std::vector<int> values = CallWithCosine(world, f);
        const int more = world.Call(Cosine(), {values[3]})[0];
        world.Backward({values[2], values[3], values[1], more});
        EXPECT_FALSE(world.GradOf(values[2]).defined());
        return GradsOf(world, values);
      },
      /*captures=*/1);
}

TEST(RetainedGradientsTest, AGradientThatAFunctionRetainsIsThatOfWhatItWrote) {
  const auto writes = [](const Tensors& in) -> Tensors {
    in[0].retain_grad();
    in[0].mul_(3);
    return {in[1] * 2};
  };
  const CompiledFunction f = CompileFor(writes, {Example({3}) * 1, Example({3})});
  ExpectThreeWays(
      [&f](World& world) {
        const std::vector<int> values = CallWithCosine(world, f);
        world.Backward({values[2], world.Call(Cosine(), {values[1]})[0], values[1]});
        return GradsOf(world, {values[0], values[1]});
      },
      /*captures=*/1);
}

}  // namespace
}  // namespace cotan::testing
