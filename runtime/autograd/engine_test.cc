// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/engine.h"

#include <complex>
#include <string>
#include <vector>

#include "runtime/autograd/grad_mode.h"
#include "runtime/autograd/saved_variable.h"
#include "runtime/autograd/test_support.h"

namespace cotan::autograd {
namespace {

using ::testing::ElementsAre;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kRefused = absl::StatusCode::kFailedPrecondition;

Variable Leaf(const std::vector<int64_t>& sizes) { return *Variable::Leaf(Count(sizes)); }

// Identity with a node of its own, which passes its gradient on.
Variable Pass(const Variable& x) { return Scale(x, 1, "Pass"); }

// Returns a + b.
Variable Sum(const Variable& a, const Variable& b) {
  const auto backward = [](BackwardContext&, absl::Span<Tensor> incoming) -> absl::StatusOr<Gradients> {
    return Gradients{incoming[0], incoming[0]};
  };
  return (*ApplyFunction("Sum", {a, b}, {*Ops().Add(a.tensor(), b.tensor())}, backward))[0];
}

TEST(EngineTest, GradientsReachLeavesAndAddUp) {
  const Variable x = Leaf({3});
  ASSERT_TRUE(Backward({Sum(Scale(x, 2), Scale(x, 3))}, {Vector({1, 10, 100})}, Ops()).ok());
  EXPECT_THAT(ToVector(x.grad()), ElementsAre(5, 50, 500));
  ASSERT_TRUE(Backward({x}, {Vector({1, 1, 1})}, Ops()).ok()) << "a leaf is a root too";
  EXPECT_THAT(ToVector(x.grad()), ElementsAre(6, 51, 501));
}

TEST(EngineTest, ANodeRunsOnceWhenAllItsGradientsAreThere) {
  const Variable x = Leaf({1});
  int runs = 0;
  const auto count = [&](BackwardContext&, absl::Span<Tensor> incoming) -> absl::StatusOr<Gradients> {
    ++runs;
    return Gradients{incoming[0]};
  };
  const Variable y = (*ApplyFunction("count", {x}, {Vector({1})}, count))[0];
  const Variable z = Sum(Sum(y, Pass(y)), Scale(Pass(y), 4));
  ASSERT_TRUE(Backward({z, y}, {}, Ops()).ok());
  EXPECT_EQ(runs, 1);
  EXPECT_THAT(ToVector(x.grad()), ElementsAre(7));
}

TEST(EngineTest, TheGradientOfTheUserIsNotWritten) {
  const Variable x = Leaf({2});
  const Tensor gradient = Vector({1, 2});
  ASSERT_TRUE(Backward({Pass(x), Pass(x)}, {gradient, gradient}, Ops()).ok());
  EXPECT_THAT(ToVector(gradient), ElementsAre(1, 2));
  EXPECT_THAT(ToVector(x.grad()), ElementsAre(2, 4));
  EXPECT_NE(x.grad().tensor().storage(), gradient.storage());
}

TEST(EngineTest, ImplicitGradientsNeedOneRealElement) {
  const Variable x = Leaf({1});
  ASSERT_TRUE(Backward({Scale(x, 2)}, {}, Ops()).ok());
  EXPECT_THAT(ToVector(x.grad()), ElementsAre(2));
  EXPECT_THAT(Backward({Leaf({2})}, {}, Ops()), Fails(kInvalid, "grad can be implicitly created only for scalar"));
  const Variable complex = *Variable::Leaf(*Tensor::Scalar(std::complex<float>(1, 2)));
  EXPECT_THAT(Backward({complex}, {}, Ops()), Fails(kInvalid, "only for real scalar outputs"));
  EXPECT_THAT(Backward({complex}, {Vector({1})}, Ops()), Fails(kInvalid, "both or neither must be complex"));
}

TEST(EngineTest, RootsAndGradientsAreChecked) {
  const Variable x = Leaf({3});
  const Variable plain(Count({3}));
  EXPECT_THAT(Backward({x, x}, {Count({3})}, Ops()), Fails(kInvalid, "got 2 roots and 1 gradients"));
  EXPECT_THAT(Backward({plain}, {Count({3})}, Ops()), Fails(kRefused, "root 0 does not require grad"));
  EXPECT_THAT(Backward({x}, {Count({2})}, Ops()),
              Fails(kInvalid, "root 0: invalid gradient: got f32[2] but expected shape compatible with f32[3]"));
  EXPECT_FALSE(x.grad().defined());
}

TEST(EngineTest, GradientsAreCastToTheirValue) {
  const Variable x = Leaf({2});
  ASSERT_TRUE(Backward({x}, {*Tensor::From<double>({1, 2}, {2})}, Ops()).ok());
  EXPECT_EQ(x.grad().dtype(), DType::kFloat32);
  // The gradient of a real leaf is the real part.
  const auto complex = [](BackwardContext&, absl::Span<Tensor>) -> absl::StatusOr<Gradients> {
    return Gradients{*Tensor::From<std::complex<float>>({{1, 5}, {2, 6}}, {2})};
  };
  const Variable y = (*ApplyFunction("complex", {x}, {Vector({0})}, complex))[0];
  ASSERT_TRUE(Backward({y}, {}, Ops()).ok());
  EXPECT_THAT(ToVector(x.grad()), ElementsAre(2, 4));
}

TEST(EngineTest, WhatANodeReturnsIsChecked) {
  const Variable x = Leaf({2});
  const auto returning = [&](Gradients gradients) {
    const auto backward = [gradients](BackwardContext&, absl::Span<Tensor>) -> absl::StatusOr<Gradients> {
      return gradients;
    };
    return Backward({(*ApplyFunction("bad", {x}, {Vector({0})}, backward))[0]}, {}, Ops());
  };
  EXPECT_THAT(returning({}), Fails(kInvalid, "in the backward of bad: the node returned 0 gradients, expected 1"));
  EXPECT_THAT(returning({Vector({1, 2, 3})}), Fails(kInvalid, "gradient 0: invalid gradient: got f32[3]"));
  EXPECT_TRUE(returning({Values({1, 2, 3, 4, 5, 6}, {3, 2})}).ok()) << "summed, as if it had been broadcast";
  EXPECT_THAT(ToVector(x.grad()), ElementsAre(9, 12));
}

TEST(EngineTest, NoGradientIsNotZero) {
  const Variable x = Leaf({2});
  const Variable y = Leaf({2});
  const auto first_only = [](BackwardContext&, absl::Span<Tensor> incoming) -> absl::StatusOr<Gradients> {
    EXPECT_FALSE(incoming[1].defined()) << "the second output is not used";
    return Gradients{incoming[0], Tensor()};
  };
  const auto outputs = *ApplyFunction("pair", {x, y}, {Vector({1, 2}), Vector({3, 4})}, first_only);
  ASSERT_TRUE(Backward({outputs[0]}, {Vector({1, 1})}, Ops()).ok());
  EXPECT_TRUE(x.grad().defined());
  EXPECT_FALSE(y.grad().defined());
}

TEST(EngineTest, NodesAreToldWhoAsks) {
  const Variable x = Leaf({1});
  const Variable plain(Vector({1}));
  std::vector<bool> asked;
  const auto ask = [&](BackwardContext& context, absl::Span<Tensor> incoming) -> absl::StatusOr<Gradients> {
    asked = {context.NeedsGradient(0), context.NeedsGradient(1), context.NeedsGradient(2)};
    return Gradients{incoming[0], incoming[0], incoming[0]};
  };
  const Variable z = Pass(x);
  const Variable y = (*ApplyFunction("ask", {x, plain, z}, {Vector({1})}, ask))[0];
  ASSERT_TRUE(Backward({y}, {}, Ops(), {.retain_graph = true}).ok());
  EXPECT_THAT(asked, ElementsAre(true, false, true));
  ASSERT_TRUE(Grad({y}, {z}, {}, Ops()).ok());
  EXPECT_THAT(asked, ElementsAre(false, false, true));
}

TEST(EngineTest, ViewsAndWritesCompose) {
  const Variable leaf = Leaf({4});
  const Variable source = Leaf({2});
  const Variable x = Pass(leaf);
  Variable front = *x.View({view::Slice{.dim = 0, .start = 0, .end = 2}});
  const Variable whole = *x.View({view::View{.sizes = {2, 2}}});
  ASSERT_TRUE(front.CopyInPlace(Scale(source, 3), Ops()).ok());
  EXPECT_THAT(ToVector(whole), ElementsAre(0, 3, 2, 3));
  ASSERT_TRUE(Backward({whole}, {Values({1, 2, 3, 4}, {2, 2})}, Ops()).ok());
  EXPECT_THAT(ToVector(leaf.grad()), ElementsAre(0, 0, 3, 4));
  EXPECT_THAT(ToVector(source.grad()), ElementsAre(3, 6));
}

TEST(EngineTest, WritesWithBroadcastAndCastGiveTheSourceItsOwnType) {
  const Variable source = *Variable::Leaf(*Tensor::From<double>({1, 2}, {2}));
  Variable x(Count({3, 2}));
  ASSERT_TRUE(x.CopyInPlace(source, Ops()).ok());
  ASSERT_TRUE(Backward({x}, {Count({3, 2})}, Ops()).ok());
  EXPECT_THAT(*source.grad().tensor().ToVector<double>(), ElementsAre(6, 9));
}

TEST(EngineTest, AGraphIsFreedUnlessRetained) {
  const Variable leaf = Leaf({2});
  const Variable x = Pass(leaf);
  Variable part = *x.View({view::Slice{.dim = 0, .start = 0, .end = 1}});
  ASSERT_TRUE(part.CopyInPlace(Variable(Vector({5})), Ops()).ok());
  const Tensor gradient = Vector({1, 1});
  ASSERT_TRUE(Backward({x}, {gradient}, Ops(), {.retain_graph = true}).ok());
  ASSERT_TRUE(Backward({x}, {gradient}, Ops()).ok());
  EXPECT_THAT(ToVector(leaf.grad()), ElementsAre(0, 2));
  EXPECT_THAT(Backward({x}, {gradient}, Ops()),
              Fails(kRefused, "CopySlices: trying to backward through the graph a second time"));
  const Variable view = *leaf.View({});
  ASSERT_TRUE(Backward({view}, {gradient}, Ops()).ok());
  EXPECT_TRUE(Backward({view}, {gradient}, Ops()).ok()) << "a view saves nothing";
}

TEST(EngineTest, SavedValuesMustNotBeModified) {
  const Variable leaf = Leaf({2});
  Variable x = Pass(leaf);
  const SavedVariable saved(x);
  const std::shared_ptr<Node> reader = *x.grad_fn();
  const auto square = [saved, reader](BackwardContext&, absl::Span<Tensor>) -> absl::StatusOr<Gradients> {
    const absl::StatusOr<Tensor> value = saved.Unpack(*reader);
    if (!value.ok()) return value.status();
    return Gradients{*value};
  };
  const Variable y = (*ApplyFunction("square", {x}, {Vector({1})}, square))[0];
  x.BumpVersion();
  EXPECT_THAT(Backward({y}, {}, Ops()),
              Fails(kRefused, "f32[2], output 0 of Pass, is at version 1; expected version 0"));
}

TEST(EngineTest, CreateGraphIsRefusedByName) {
  const Variable x = Leaf({1});
  EXPECT_THAT(Backward({Pass(x)}, {}, Ops(), {.create_graph = true}),
              Fails(absl::StatusCode::kUnimplemented, "the gradients of Pass cannot be differentiated again"));
  EXPECT_THAT(Grad({Pass(x)}, {x}, {}, Ops(), {.create_graph = true}).status(),
              Fails(absl::StatusCode::kUnimplemented, "double backward"));
}

TEST(EngineTest, GradReturnsGradientsOfAnyVariable) {
  const Variable x = Leaf({2});
  const Variable y = Scale(x, 2);
  const Variable z = Scale(y, 3);
  const auto gradients = Grad({z}, {x, y, z}, {Vector({1, 10})}, Ops());
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  EXPECT_THAT(ToVector((*gradients)[0]), ElementsAre(6, 60));
  EXPECT_THAT(ToVector((*gradients)[1]), ElementsAre(3, 30));
  EXPECT_THAT(ToVector((*gradients)[2]), ElementsAre(1, 10));
  EXPECT_FALSE(x.grad().defined());
}

TEST(EngineTest, GradRunsOnlyWhatLeadsToItsInputs) {
  const Variable x = Leaf({1});
  const Variable other = Leaf({1});
  const auto fail = [](BackwardContext&, absl::Span<Tensor>) -> absl::StatusOr<Gradients> {
    return absl::AbortedError("must not run");
  };
  const Variable y = Sum(Pass(x), (*ApplyFunction("fail", {other}, {Vector({1})}, fail))[0]);
  EXPECT_TRUE(Grad({y}, {x}, {}, Ops()).ok());
}

TEST(EngineTest, UnusedInputsNeedPermission) {
  const Variable x = Leaf({1});
  const Variable other = Leaf({1});
  EXPECT_THAT(Grad({Pass(x)}, {other}, {}, Ops()).status(), Fails(kRefused, "input 0 appears to not have been used"));
  const auto gradients = Grad({Pass(x)}, {other, x}, {}, Ops(), {.allow_unused = true});
  ASSERT_TRUE(gradients.ok());
  EXPECT_FALSE((*gradients)[0].defined());
  EXPECT_TRUE((*gradients)[1].defined());
  EXPECT_THAT(Grad({Pass(x)}, {Variable(Vector({1}))}, {}, Ops()).status(),
              Fails(kRefused, "input 0 does not require grad"));
}

TEST(EngineTest, EdgesToALeafThatTakesAnyGradientAreOfItsOwnDType) {
  Variable x = Leaf({1});
  ASSERT_TRUE(x.SetGradDType(DType::kUndefined).ok());
  const Edge edge = *x.GradientEdge();
  ASSERT_TRUE(BackwardOfEdges({edge}, {}, Ops()).ok());
  EXPECT_THAT(ToVector(x.grad()), ElementsAre(1));
  const Edge other = *Leaf({1}).GradientEdge();
  const auto unused = GradOfEdges({other}, {edge}, {}, Ops(), {.materialize_grads = true});
  ASSERT_TRUE(unused.ok()) << unused.status();
  EXPECT_THAT(ToVector((*unused)[0]), ElementsAre(0));
}

TEST(EngineTest, HooksSeeGradientsInOrder) {
  Variable leaf = Leaf({1});
  Variable x = Pass(leaf);
  std::string log;
  const auto note = [&log](const char* what, float factor) {
    return [&log, what, factor](const Tensor& gradient) -> absl::StatusOr<Tensor> {
      log += what;
      return Vector({ToVector(gradient)[0] * factor});
    };
  };
  ASSERT_TRUE(leaf.AddHook(note("leaf ", 5)).ok());
  ASSERT_TRUE(x.AddHook(note("x ", 3)).ok());
  ASSERT_TRUE(x.RetainGrad().ok());
  (*x.grad_fn())->MutableHooks().AddPreHook([&](absl::Span<Tensor> incoming) {
    log += "pre ";
    EXPECT_EQ(ToVector(incoming[0])[0], 3);
    return absl::OkStatus();
  });
  (*x.grad_fn())->MutableHooks().AddPostHook([&](Gradients& results, absl::Span<const Tensor> incoming) {
    log += "post ";
    EXPECT_EQ(ToVector(incoming[0])[0], 3);
    results[0] = Vector({ToVector(results[0])[0] + 1});
    return absl::OkStatus();
  });
  ASSERT_TRUE(leaf.AddPostAccumulateHook([&](Variable& variable) {
                    log += "done";
                    EXPECT_EQ(ToVector(variable.grad())[0], 20);
                    return absl::OkStatus();
                  })
                  .ok());
  ASSERT_TRUE(Backward({x}, {}, Ops()).ok());
  EXPECT_EQ(log, "x pre post leaf done");
  EXPECT_THAT(ToVector(x.grad()), ElementsAre(3));
}

TEST(EngineTest, LeafHooksOutliveTheGraph) {
  Variable leaf = Leaf({1});
  const HookId id = *leaf.AddHook(
      [](const Tensor& gradient) -> absl::StatusOr<Tensor> { return Vector({ToVector(gradient)[0] * 10}); });
  ASSERT_TRUE(Backward({Scale(leaf, 2)}, {}, Ops()).ok());
  EXPECT_THAT(ToVector(leaf.grad()), ElementsAre(20));
  EXPECT_THAT(ToVector((*Grad({Scale(leaf, 2)}, {leaf}, {}, Ops()))[0]), ElementsAre(20));
  ASSERT_TRUE(leaf.RemoveHook(id));
  ASSERT_TRUE(Backward({Scale(leaf, 2)}, {}, Ops()).ok());
  EXPECT_THAT(ToVector(leaf.grad()), ElementsAre(22));
}

TEST(EngineTest, ARetainedGradientFollowsTheVariableThroughWrites) {
  const Variable leaf = Leaf({2});
  Variable x = Pass(leaf);
  ASSERT_TRUE(x.RetainGrad().ok());
  int old_value = 0;
  ASSERT_TRUE(x.AddHook([&](const Tensor& gradient) -> absl::StatusOr<Tensor> {
                 old_value += static_cast<int>(ToVector(gradient)[0]);
                 return Tensor();
               }).ok());
  Variable part = *x.View({view::Slice{.dim = 0, .start = 0, .end = 1}});
  ASSERT_TRUE(part.CopyInPlace(Variable(Vector({5})), Ops()).ok());
  ASSERT_TRUE(Backward({x}, {Vector({7, 8})}, Ops()).ok());
  EXPECT_THAT(ToVector(x.grad()), ElementsAre(7, 8)) << "the gradient of the value after the write";
  EXPECT_EQ(old_value, 0) << "the hook belongs to the overwritten value";
}

TEST(EngineTest, NodesMayRunBackwardsThemselves) {
  const Variable inner = Leaf({1});
  const Variable outer = Leaf({1});
  const auto nested = [&](BackwardContext& context, absl::Span<Tensor> incoming) -> absl::StatusOr<Gradients> {
    EXPECT_FALSE(GradMode::enabled());
    GradModeGuard on(true);
    const absl::Status status = Backward({Scale(inner, 5)}, {incoming[0]}, context.ops());
    if (!status.ok()) return status;
    return Gradients{incoming[0]};
  };
  ASSERT_TRUE(Backward({(*ApplyFunction("nested", {outer}, {Vector({1})}, nested))[0]}, {}, Ops()).ok());
  EXPECT_THAT(ToVector(inner.grad()), ElementsAre(5));
  EXPECT_THAT(ToVector(outer.grad()), ElementsAre(1));
  EXPECT_TRUE(GradMode::enabled());
}

TEST(EngineTest, LongChainsRunWithoutRecursion) {
  const Variable leaf = Leaf({1});
  Variable x = leaf;
  for (int i = 0; i < 100'000; ++i) x = *x.View({});
  ASSERT_TRUE(Backward({x}, {}, Ops()).ok());
  EXPECT_THAT(ToVector(leaf.grad()), ElementsAre(1));
  ASSERT_TRUE(Grad({x}, {leaf}, {}, Ops()).ok());
  x = Variable();
}

TEST(EngineTest, LongChainsOfVariablesInNodesAreDestroyedWithoutRecursion) {
  Variable x = Leaf({1});
  for (int i = 0; i < 100'000; ++i) {
    const auto backward = [x](BackwardContext&, absl::Span<Tensor> incoming) -> absl::StatusOr<Gradients> {
      return Gradients{incoming[0]};
    };
    x = (*ApplyFunction("keeps", {x}, {x.tensor()}, backward))[0];
  }
  x = Variable();
}

}  // namespace
}  // namespace cotan::autograd
