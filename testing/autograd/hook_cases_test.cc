// SPDX-License-Identifier: Apache-2.0

// Hooks on leaves, nodes and results of compiled programs: rows C3 and C4 of cases.txt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/autograd/variable.h"
#include "testing/autograd/matrix_functions.h"
#include "testing/autograd/three_ways.h"

namespace cotan::testing {
namespace {

using ::testing::ElementsAre;

// A hook that notes its name.
World::NodeHook Noted(World& world, std::string name) {
  return [&world, name](const Tensors&, const Tensors&) { world.log.push_back(name); };
}
// A tensor hook that notes the first element of the gradient.
World::GradientHook Seen(World& world, std::string name) {
  return [&world, name](const at::Tensor& gradient) {
    world.log.push_back(absl::StrCat(name, " ", gradient.flatten()[0].item<double>()));
    return at::Tensor();
  };
}
World::ReplacingHook Times(double factor) {
  return [factor](const Tensors&, const Tensors& incoming) {
    Tensors scaled;
    for (const at::Tensor& gradient : incoming) scaled.push_back(gradient * factor);
    return scaled;
  };
}
void HooksOfNode(World& world, int value, const std::string& name) {
  world.PreHook(value, Noted(world, absl::StrCat("pre ", name)));
  world.PostHook(value, Noted(world, absl::StrCat("post ", name)));
}
void HooksOfLeaf(World& world, int leaf, const std::string& name) {
  world.TensorHook(leaf, Scaled(world, absl::StrCat("tensor ", name), 1));
  HooksOfNode(world, leaf, absl::StrCat("accumulate ", name));
  world.PostAccumulateHook(leaf, [&world, name] { world.log.push_back(absl::StrCat("post-accumulate ", name)); });
}

TEST(HookCasesTest, HooksOfAGraphRunInTheOrderOfTheEngine) {
  const Outcome outcome = ExpectThreeWays(
      [](World& world) {
        const CompiledFunction& addmm =
            Compiled("addmm of squares", [](const Tensors& in) -> Tensors { return {at::addmm(in[0], in[1], in[2])}; },
                     {{2}, {2, 2}, {2, 2}});
        const int x = world.Leaf(at::randn({2, 2})), w = world.Leaf(at::randn({2, 2})), b = world.Leaf(at::randn({2}));
        const auto same = [](const at::Tensor& value) { return value.clone(); };
        const int identity = world.Node("I", x, same, same);
        const int turned = world.View(w, view::Permute{.dims = {1, 0}});
        const int y = world.Call(addmm, {b, identity, turned})[0];
        const int sum = world.Call(Total(), {y})[0];
        HooksOfNode(world, sum, "Sum");
        HooksOfNode(world, y, "Addmm");
        HooksOfNode(world, turned, "T");
        HooksOfNode(world, identity, "I");
        for (const auto& [leaf, name] : {std::pair(b, "b"), std::pair(w, "w"), std::pair(x, "x")}) {
          HooksOfLeaf(world, leaf, name);
        }
        world.Backward({sum});
        return GradsOf(world, {x, w, b});
      },
      /*captures=*/0);
  EXPECT_THAT(outcome.log, ElementsAre("pre Sum", "post Sum", "pre Addmm", "post Addmm", "tensor b", "pre accumulate b",
                                       "post-accumulate b", "post accumulate b", "pre T", "post T", "tensor w",
                                       "pre accumulate w", "post-accumulate w", "post accumulate w", "pre I", "post I",
                                       "tensor x", "pre accumulate x", "post-accumulate x", "post accumulate x"));
}

TEST(HookCasesTest, FourKindsOfHooksChangeTheGradientOfALeafInTurn) {
  const Outcome outcome = ExpectThreeWays(
      [](World& world) {
        const int t = world.Leaf(at::randn({2, 2}));
        world.TensorHook(t, [](const at::Tensor& gradient) { return gradient - 2; });
        world.ReplacingPreHook(t, Times(0.2));
        world.PostAccumulateHook(t, [&world, t] { world.SetGrad(t, world.GradOf(t) + 0.5); });
        world.PostHook(t, [&world, t](const Tensors&, const Tensors&) { world.SetGrad(t, world.GradOf(t) * 10); });
        world.Backward(world.Call(Total(), {t}));
        return GradsOf(world, {t});
      },
      /*captures=*/1);
  EXPECT_TRUE(at::allclose(outcome.gradients[0], Full(3)));
}

// AG-020: a, and a copy of it, are parts of the sum.
TEST(HookCasesTest, NoHookOfALeafRunsThatTheBackwardDoesNotReach) {
  const Outcome outcome = ExpectThreeWays(
      [](World& world) {
        const CompiledFunction& sum =
            Compiled("sum of three matrices", [](const Tensors& in) -> Tensors { return {in[0] + in[1] + in[2]}; },
                     {{2, 2}, {2, 2}, {2, 2}});
        const int a = world.Leaf(at::randn({2, 2})), b = world.Leaf(at::randn({2, 2}));
        const int copy = world.Call(Cloned(), {a})[0];
        HooksOfLeaf(world, a, "a");
        HooksOfNode(world, copy, "copy");
        world.TensorHook(copy, Scaled(world, "tensor copy", 1));
        world.Backward(world.Call(sum, {a, b, copy}), /*retain_graph=*/false, /*inputs=*/{b});
        return GradsOf(world, {a, b});
      },
      /*captures=*/1);
  EXPECT_THAT(outcome.log, ElementsAre());
  EXPECT_FALSE(outcome.gradients[0].defined());
  EXPECT_TRUE(at::equal(outcome.gradients[1], Full(1)));
}

TEST(HookCasesTest, HooksOfAnAccumulationSeeOneGradientAndNoResult) {
  const Outcome outcome = ExpectThreeWays(
      [](World& world) {
        const int a = world.Leaf(at::randn({2, 2}));
        world.TensorHook(a, Scaled(world, "tensor", 2));
        const auto note = [&world](const Tensors& results, const Tensors& incoming) {
          world.log.push_back(
              absl::StrCat(results.size(), " of ", incoming.size(), ": ", incoming[0].flatten()[0].item<double>()));
        };
        world.PreHook(a, note);
        world.PostHook(a, note);
        world.Backward(world.Call(Total(), {a}));
        return GradsOf(world, {a});
      },
      /*captures=*/1);
  EXPECT_THAT(outcome.log, ElementsAre("tensor", "0 of 1: 2", "0 of 1: 2"));
}

// Calls of hooks of gradients, before nodes and after nodes.
std::vector<int> Counts(World& world) {
  std::vector<int> counts;
  for (const std::string kind : {"tensor", "pre", "post"}) {
    counts.push_back(static_cast<int>(std::count_if(
        world.log.begin(), world.log.end(), [&](const std::string& text) { return text.rfind(kind + " ", 0) == 0; })));
  }
  world.log.clear();
  return counts;
}

TEST(HookCasesTest, WhichHooksRunDependsOnWhatIsAskedFor) {
  std::vector<std::vector<int>> counts;
  ExpectThreeWays(
      [&counts](World& world) {
        counts.clear();
        const int a = world.Leaf(Full(1));
        const int b = world.Call(Doubled(), {a})[0];
        const int c = world.Call(Doubled(), {b})[0];
        for (const auto& [value, name] : {std::pair(a, "a"), std::pair(b, "b")}) {
          world.TensorHook(value, Scaled(world, absl::StrCat("tensor ", name), 1));
          HooksOfNode(world, value, name);
        }
        Tensors all = world.Grad({c}, {b});
        counts.push_back(Counts(world));
        Append(all, world.Grad({c}, {a, b}));
        counts.push_back(Counts(world));
        world.Backward({c}, /*retain_graph=*/true);
        counts.push_back(Counts(world));
        world.Backward({c}, /*retain_graph=*/true, {a, b});
        counts.push_back(Counts(world));
        Append(all, GradsOf(world, {a}));
        return all;
      },
      /*captures=*/2);
  EXPECT_THAT(counts,
              ElementsAre(ElementsAre(1, 0, 0), ElementsAre(2, 1, 1), ElementsAre(2, 2, 2), ElementsAre(2, 2, 2)));
}

// As LibTorch does: before the hooks of the value if the backward goes on from it, after them if it ends there.
TEST(HookCasesTest, AGradientThatIsAskedForIsTheOneBeforeTheHooksIfTheBackwardGoesOn) {
  const Outcome outcome = ExpectThreeWays(
      [](World& world) {
        Tensors all;
        for (const bool goes_on : {true, false}) {
          const int x = world.Leaf(at::randn({2, 2}));
          const int y = world.Call(Doubled(), {x})[0];
          world.TensorHook(y, Scaled(world, "y", 10));
          const int z = world.Call(Doubled(), {y})[0];
          Append(all, world.Grad({z}, goes_on ? std::vector<int>{y, x} : std::vector<int>{y}));
        }
        return all;
      },
      /*captures=*/1);  // the second backward is the first segment of the first one
  EXPECT_THAT(outcome.log, ElementsAre("y", "y"));
  EXPECT_TRUE(at::equal(outcome.gradients[0], Full(2)));
  EXPECT_TRUE(at::equal(outcome.gradients[1], Full(40)));
  EXPECT_TRUE(at::equal(outcome.gradients[2], Full(20)));
}

// Of a compiled function, and of a node of the host program.
TEST(HookCasesTest, PreHooksMultiplyAndPostHooksSeeBothSides) {
  for (const bool is_node : {false, true}) {
    SCOPED_TRACE(is_node ? "node" : "compiled");
    const Outcome outcome = ExpectThreeWays(
        [is_node](World& world) {
          const auto twice = [](const at::Tensor& t) { return t * 2; };
          const int a = world.Leaf(at::randn({2, 2}));
          const int b = is_node ? world.Node("Twice", a, twice, twice) : world.Call(Doubled(), {a})[0];
          for (const double factor : {2.0, 0.0, 2.0, 2.0, 1.0, 0.0}) {
            if (factor == 0) {
              world.PreHook(b, Noted(world, "pre"));
            } else {
              world.ReplacingPreHook(b, Times(factor));
            }
          }
          for (int i = 0; i < 2; ++i) {
            world.PostHook(b, [&world](const Tensors& results, const Tensors& incoming) {
              world.log.push_back(absl::StrCat("post ", incoming[0].flatten()[0].item<double>(), " ",
                                               results[0].flatten()[0].item<double>()));
            });
          }
          world.Backward(world.Call(Total(), {b}));
          return GradsOf(world, {a});
        },
        /*captures=*/1);
    EXPECT_THAT(outcome.log, ElementsAre("pre", "pre", "post 8 16", "post 8 16"));
    EXPECT_TRUE(at::equal(outcome.gradients[0], Full(16)));
  }
}

TEST(HookCasesTest, APreHookOfANodeWithTwoResultsSeesBothGradients) {
  const auto run = [](World& world, bool hooked) {
    const CompiledFunction& var_mean = Compiled("var_mean",
                                                [](const Tensors& in) -> Tensors {
                                                  const auto [variance, mean] =
                                                      at::var_mean(in[0], at::OptionalIntArrayRef(0));
                                                  return {variance, mean};
                                                },
                                                {{3, 2}});
    const CompiledFunction& total =
        Compiled("total of rows", [](const Tensors& in) -> Tensors { return {(in[0] + in[1]).sum()}; }, {{2}, {2}});
    const int b = world.Leaf(at::randn({3, 2}));
    const std::vector<int> parts = world.Call(var_mean, {b});
    if (hooked) {
      world.ReplacingPreHook(parts[0], [&world](const Tensors&, const Tensors& incoming) -> Tensors {
        world.log.push_back(absl::StrCat("pre ", incoming.size()));
        return {incoming[0] * 2, incoming[1] * 2};
      });
    }
    world.Backward(world.Call(total, parts));
    return GradsOf(world, {b});
  };
  const Outcome hooked = ExpectThreeWays([run](World& world) { return run(world, true); }, /*captures=*/1);
  const Outcome plain = ExpectThreeWays([run](World& world) { return run(world, false); }, /*captures=*/1);
  EXPECT_THAT(hooked.log, ElementsAre("pre 2"));
  EXPECT_TRUE(at::allclose(hooked.gradients[0], plain.gradients[0] * 2));
}

TEST(HookCasesTest, AHookBelongsToTheVersionAtWhichItWasAdded) {
  const Outcome outcome = ExpectThreeWays(
      [](World& world) {
        const int a = world.Leaf(Full(1));
        const auto same = [](const at::Tensor& value) { return value.clone(); };
        const int b = world.Node("Clone", a, same, same);
        const auto doubling = [&world](std::string name) {
          return [&world, name](const at::Tensor& gradient) {
            world.log.push_back(absl::StrCat(name, " ", gradient.flatten()[0].item<double>()));
            return gradient * 2;
          };
        };
        world.TensorHook(b, doubling("first"));
        world.Call(DoublesInPlace(), {b});
        world.TensorHook(b, doubling("second"));
        world.Backward(world.Call(Total(), {b}));
        return GradsOf(world, {a});
      },
      /*captures=*/1);
  EXPECT_THAT(outcome.log, ElementsAre("second 1", "first 4"));
  EXPECT_TRUE(at::equal(outcome.gradients[0], Full(8)));
}

// The results are of one node if they are compiled, and of two nodes in eager mode: only the order of calls differs.
TEST(HookCasesTest, HooksOfTwoResultsAndOfAWrittenOne) {
  const Outcome outcome = ExpectThreeWays(
      [](World& world) {
        const CompiledFunction& weighted =
            Compiled("weighted total", [](const Tensors& in) -> Tensors { return {(in[0] + 3 * in[1]).sum()}; },
                     {{2, 2}, {2, 2}});
        const std::vector<int> parts = world.Call(TwiceAndThrice(), {world.Leaf(at::randn({2, 2}))});
        Tensors seen(3);
        const auto sees = [&seen](size_t hook) {
          return [&seen, hook](const at::Tensor& gradient) {
            seen[hook] = seen[hook].defined() ? seen[hook] + 100 : gradient.clone();
            return at::Tensor();
          };
        };
        world.TensorHook(parts[0], sees(0));
        world.TensorHook(parts[1], sees(1));
        world.Call(DoublesInPlace(), {parts[0]});
        world.TensorHook(parts[0], sees(2));
        world.Backward(world.Call(weighted, parts));
        return seen;
      },
      /*captures=*/1);
  EXPECT_TRUE(at::equal(outcome.gradients[0], Full(2)));
  EXPECT_TRUE(at::equal(outcome.gradients[1], Full(3)));
  EXPECT_TRUE(at::equal(outcome.gradients[2], Full(1)));
}

TEST(HookCasesTest, HooksOfViewsAreLostWhenTheirBaseIsWritten) {
  const Outcome outcome = ExpectThreeWays(
      [](World& world) {
        const auto same = [](const at::Tensor& value) { return value.clone(); };
        const int base = world.Node("Clone", world.Leaf(Full(1)), same, same);
        const ViewStep all = view::Slice{.dim = 0, .start = 0, .end = 2, .step = 1};
        const int v = world.View(base, all), w = world.View(base, all);
        world.TensorHook(v, Seen(world, "old v"));
        world.TensorHook(w, Seen(world, "old w"));
        world.Copy(v, world.Leaf(at::randn({2, 2})));
        world.PreHook(w, Noted(world, "pre w"));  // regenerates the node of w
        world.TensorHook(w, Seen(world, "new w"));
        world.Backward(world.Call(TotalOfTwo(), {v, w}));
        return Tensors{};
      },
      /*captures=*/1);
  EXPECT_THAT(outcome.log, ElementsAre("new w 1", "pre w"));
}

TEST(HookCasesTest, AHookOfAResultDoesNotSeeOtherUsesOfTheArgument) {
  const Outcome outcome = ExpectThreeWays(
      [](World& world) {
        const CompiledFunction& both = Compiled("first and sum",
                                                [](const Tensors& in) -> Tensors {
                                                  return {in[0] * 1, in[0] + in[1]};
                                                },
                                                {{2, 2}, {2, 2}});
        const CompiledFunction& total =
            Compiled("total of three", [](const Tensors& in) -> Tensors { return {(in[0] + in[1] + in[2]).sum()}; },
                     {{2, 2}, {2, 2}, {2, 2}});
        const int x = world.Leaf(at::randn({2, 2})), y = world.Leaf(at::randn({2, 2}));
        const std::vector<int> parts = world.Call(both, {x, y});
        world.TensorHook(parts[0], Seen(world, "q"));
        world.Backward(world.Call(total, {parts[0], parts[1], x}));
        return GradsOf(world, {x, y});
      },
      /*captures=*/1);
  EXPECT_THAT(outcome.log, ElementsAre("q 1"));
  EXPECT_TRUE(at::equal(outcome.gradients[0], Full(3)) && at::equal(outcome.gradients[1], Full(1)));
}

TEST(HookCasesTest, PostAccumulateHooksWriteTheLeafInTurn) {
  const Outcome outcome = ExpectThreeWays(
      [](World& world) {
        const int t = world.Leaf(at::randn({2, 2}));
        Tensors all = {world.Value(t).detach().clone()};
        world.PostAccumulateHook(t, [&world, t] { world.SetValue(t, world.Value(t).detach() - world.GradOf(t)); });
        world.PostAccumulateHook(t, [&world, t] { world.SetValue(t, world.Value(t).detach() * 4); });
        world.Backward(world.Call(Total(), {t}));
        all.push_back(world.Value(t).detach().clone());
        return all;
      },
      /*captures=*/1);
  EXPECT_TRUE(at::allclose(outcome.gradients[1], 4 * (outcome.gradients[0] - 1)));
}

TEST(HookCasesTest, APostAccumulateHookLivesAsLongAsItsLeaf) {
  std::weak_ptr<int> kept;
  {
    Variable leaf = *Variable::Leaf(*Tensor::Scalar(1.0F));
    auto owned = std::make_shared<int>(1);
    kept = owned;
    ASSERT_TRUE(leaf.AddPostAccumulateHook([owned](Variable&) { return absl::OkStatus(); }).ok());
    owned = nullptr;
    EXPECT_FALSE(kept.expired());
  }
  EXPECT_TRUE(kept.expired());
}

}  // namespace
}  // namespace cotan::testing
