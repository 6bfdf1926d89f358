// SPDX-License-Identifier: Apache-2.0

// Double backward through compiled functions: the rows R12 and HO of the cases, and PyTorch's issues #91469, #183603
// and #181581.
#include "runtime/autograd/double_backward.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <optional>
#include <string>
#include <vector>

#include "runtime/autograd/engine.h"
#include "runtime/autograd/function_node.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/compiled_autograd/compiled_autograd.h"
#include "testing/higher_order/compiled.h"
#include "testing/higher_order/identity_node.h"

namespace cotan::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<double> Values(const Tensor& tensor) { return *tensor.ToVector<double>(); }
std::vector<double> Values(const Variable& variable) { return Values(variable.tensor()); }

at::Tensor Vector(const std::vector<double>& values) { return torch::tensor(values, torch::kDouble); }
Variable LeafOf(const std::vector<double>& values) { return *Variable::Leaf(ToCotan(Vector(values))); }
Tensor Ones(int64_t count) { return ToCotan(torch::ones({count}, torch::kDouble)); }

// Compiles a function of vectors of one element.
Compiled CompileOf(const aot::TensorFunction& function, int num_inputs, int order, int64_t count = 1) {
  Tensors examples;
  for (int i = 0; i < num_inputs; ++i) examples.push_back(Leaf(i, {count}));
  absl::StatusOr<Compiled> compiled = Compiled::Function(function, examples, order);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *std::move(compiled);
}

// Returns the gradient of a result for the tangent 1, with history.
Variables WithGraph(Compiled& f, const Variable& y, const Variables& inputs) {
  auto gradients = autograd::GradWithGraph({y}, inputs, {Variable(*f.ops().Ones(DType::kFloat64, y.sizes()))}, f.ops(),
                                           /*allow_unused=*/true);
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  return gradients.ok() ? *gradients : Variables(inputs.size());
}

TEST(DoubleBackwardTest, FifthPowerHasTwoOrders) {
  Compiled f = CompileOf([](const Tensors& in) -> Tensors { return {in[0].pow(5)}; }, 1, 2);
  const Variable x = LeafOf({1});
  const Variable dy = WithGraph(f, f({x})[0], {x})[0];
  EXPECT_THAT(Values(dy), ElementsAre(5));
  EXPECT_TRUE(dy.requires_grad());
  EXPECT_THAT(Values((*autograd::Grad({dy}, {x}, {Ones(1)}, f.ops()))[0]), ElementsAre(20));
}

TEST(DoubleBackwardTest, SumOfFourthPowers) {
  Compiled f = CompileOf([](const Tensors& in) -> Tensors { return {in[0].pow(4).sum()}; }, 1, 2, 4);
  const Variable x = LeafOf({0.5, 1.5, 2.5, 3.5});
  const Variable dy = (*autograd::GradWithGraph({f({x})[0]}, {x}, {}, f.ops()))[0];
  EXPECT_THAT(Values(dy), ElementsAre(0.5, 13.5, 62.5, 171.5));
  EXPECT_THAT(Values((*autograd::Grad({dy}, {x}, {Ones(4)}, f.ops()))[0]), ElementsAre(3, 27, 75, 147));
}

TEST(DoubleBackwardTest, SquareByBackward) {
  Compiled f = CompileOf([](const Tensors& in) -> Tensors { return {in[0] * in[0]}; }, 1, 2);
  ASSERT_TRUE(CompiledAutograd::Reset().ok());
  for (const bool captured : {false, true}) {
    std::optional<CompiledAutograd> scope;
    if (captured) scope.emplace();
    const Variable x = LeafOf({3});
    const Variable dy = WithGraph(f, f({x})[0], {x})[0];
    EXPECT_THAT(Values(dy), ElementsAre(6));
    EXPECT_TRUE(dy.requires_grad());
    ASSERT_TRUE(autograd::Backward({dy}, {Ones(1)}, f.ops()).ok());
    EXPECT_THAT(Values(x.grad()), ElementsAre(2));
  }
  EXPECT_EQ(CompiledAutograd::Stats().captures, 1);
  EXPECT_EQ(CompiledAutograd::Stats().walked_segments, 0) << ::testing::PrintToString(CompiledAutograd::Messages());
}

// CA-078.
TEST(DoubleBackwardTest, CubeHasFourOrders) {
  Compiled f = CompileOf([](const Tensors& in) -> Tensors { return {in[0].pow(3)}; }, 1, 4);
  const Variable x = LeafOf({2});
  Variable y = f({x})[0];
  std::vector<double> orders;
  for (int order = 1; order <= 3; ++order) {
    y = WithGraph(f, y, {x})[0];
    ASSERT_TRUE(y.defined());
    orders.push_back(Values(y)[0]);
  }
  EXPECT_THAT(orders, ElementsAre(12, 12, 6));
  const auto fourth = autograd::Grad({y}, {x}, {Ones(1)}, f.ops(), {.allow_unused = true});
  ASSERT_TRUE(fourth.ok()) << fourth.status();
  if ((*fourth)[0].defined()) {
    EXPECT_THAT(Values((*fourth)[0]), ElementsAre(0));
  }
}

// CA-078 under a capture: recorded backwards are walked, the last one is captured once.
TEST(DoubleBackwardTest, TheLastOfTheOrdersIsCaptured) {
  Compiled f = CompileOf([](const Tensors& in) -> Tensors { return {in[0].pow(3)}; }, 1, 3);
  ASSERT_TRUE(CompiledAutograd::Reset().ok());
  const CompiledAutograd scope;
  for (int round = 0; round < 3; ++round) {
    const Variable x = LeafOf({2});
    const Variable first = WithGraph(f, f({x})[0], {x})[0];
    EXPECT_THAT(Values(first), ElementsAre(12));
    const Variable second = WithGraph(f, first, {x})[0];
    EXPECT_THAT(Values(second), ElementsAre(12));
    const absl::Status ran = autograd::Backward({second}, {Ones(1)}, f.ops());
    ASSERT_TRUE(ran.ok()) << ran;
    EXPECT_THAT(Values(x.grad()), ElementsAre(6));
  }
  EXPECT_EQ(CompiledAutograd::Stats().captures, 1) << ::testing::PrintToString(CompiledAutograd::Reasons());
  EXPECT_EQ(CompiledAutograd::Stats().hits, 2);
  EXPECT_EQ(CompiledAutograd::Stats().walked_segments, 0) << ::testing::PrintToString(CompiledAutograd::Messages());
}

// CA-073: a backward with create_graph is walked in a scope, and so is the one that a node of it starts. Without
// create_graph the outer one is captured.
TEST(DoubleBackwardTest, ABackwardInsideOfARecordedOneIsWalkedLikeThat) {
  Compiled f = CompileOf([](const Tensors& in) -> Tensors { return {in[0].pow(3)}; }, 1, 2);
  ASSERT_TRUE(CompiledAutograd::Reset().ok());
  const CompiledAutograd scope;
  for (const bool records : {true, false}) {
    Variable x = LeafOf({2});
    const Variable other = LeafOf({3});
    const auto inner = [&]() -> absl::Status {
      const GradModeGuard grad(true);
      return autograd::Backward({f({other})[0]}, {Ones(1)}, f.ops());
    };
    const Variable y = f({IdentityNode(x, inner)})[0];
    const absl::Status ran = autograd::Backward({y}, {Ones(1)}, f.ops(), {.create_graph = records});
    ASSERT_TRUE(ran.ok()) << ran;
    EXPECT_THAT(Values(x.grad()), ElementsAre(12));
    EXPECT_THAT(Values(other.grad()), ElementsAre(27));
    EXPECT_EQ(x.grad().requires_grad(), records);
    EXPECT_EQ(CompiledAutograd::Stats().captures, records ? 0 : 1);
    x.ClearGrad();  // a cycle of the graph and its gradient
  }
}

// CA-079.
TEST(DoubleBackwardTest, OrderOneIsRefusedByTheNameOfTheOption) {
  Compiled f = CompileOf([](const Tensors& in) -> Tensors { return {in[0].pow(3)}; }, 1, 1);
  const Variable x = LeafOf({2});
  for (const bool captured : {false, true}) {
    std::optional<CompiledAutograd> scope;
    if (captured) scope.emplace();
    const absl::Status refused = autograd::GradWithGraph({f({x})[0]}, {x}, {Variable(Ones(1))}, f.ops()).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(refused.message(), HasSubstr("double backward"));
    EXPECT_THAT(refused.message(), HasSubstr("CompileOptions::order"));
    EXPECT_FALSE(autograd::Backward({f({x})[0]}, {Ones(1)}, f.ops(), {.create_graph = true}).ok());
    EXPECT_FALSE(x.grad().defined());
  }
}

TEST(DoubleBackwardTest, TheOrderAfterTheLastIsRefused) {
  Compiled f = CompileOf([](const Tensors& in) -> Tensors { return {in[0].pow(5)}; }, 1, 2);
  const Variable x = LeafOf({1});
  const Variable dy = WithGraph(f, f({x})[0], {x})[0];
  const absl::Status refused = autograd::GradWithGraph({dy}, {x}, {Variable(Ones(1))}, f.ops()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(refused.message(), HasSubstr("'backward.forward'"));
}

TEST(DoubleBackwardTest, OrdersOutsideOfTheRangeAreRefused) {
  for (const int order : {0, 5}) {
    const auto compiled =
        Compiled::Function([](const Tensors& in) -> Tensors { return {in[0]}; }, {Leaf(0, {1})}, order);
    EXPECT_EQ(compiled.status().code(), absl::StatusCode::kInvalidArgument);
  }
}

// CA-031.
TEST(DoubleBackwardTest, BackwardReplacesAnExistingGrad) {
  Compiled f = CompileOf([](const Tensors& in) -> Tensors { return {in[0] * in[0] * 1.5}; }, 1, 2);
  Variable x = LeafOf({1});
  const Variable old(Ones(1));
  ASSERT_TRUE(x.SetGrad(old).ok());
  ASSERT_TRUE(autograd::BackwardWithGraph({f({x})[0]}, {Variable(Ones(1))}, f.ops()).ok());
  EXPECT_THAT(Values(x.grad()), ElementsAre(4));
  EXPECT_FALSE(x.grad().is_same(old));
  EXPECT_TRUE(x.grad().requires_grad());
  EXPECT_THAT(Values(old), ElementsAre(1));
  ASSERT_TRUE(autograd::Backward({f({x})[0]}, {Ones(1)}, f.ops()).ok());
  x.ClearGrad();  // ends the circle leaf, grad, node, leaf
}

// AG-095.
TEST(DoubleBackwardTest, GradOfACombinationOfGradients) {
  Compiled f =
      CompileOf([](const Tensors& in) -> Tensors { return {in[0] * in[0] + in[1] * in[0] + in[1] * in[1]}; }, 2, 2);
  const Variable x = LeafOf({2}), y = LeafOf({3});
  const Variables g = WithGraph(f, f({x, y})[0], {x, y});
  EXPECT_THAT(Values(g[0]), ElementsAre(7));
  EXPECT_THAT(Values(g[1]), ElementsAre(8));
  const auto second = autograd::Grad(g, {x}, {ToCotan(Vector({2})), Ones(1)}, f.ops());
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_THAT(Values((*second)[0]), ElementsAre(5));
  EXPECT_FALSE(x.grad().defined());
  EXPECT_FALSE(y.grad().defined());
}

// AG-096: ascent steps that are part of the graph.
TEST(DoubleBackwardTest, GradientsFlowThroughSteps) {
  const auto value = [](const at::Tensor& x, const at::Tensor& y) { return x * x + y * x + y * y; };
  Compiled f = CompileOf([&](const Tensors& in) -> Tensors { return {value(in[0], in[1])}; }, 2, 2);
  Compiled step = CompileOf([](const Tensors& in) -> Tensors { return {in[0] + 0.05 * in[1]}; }, 2, 1);
  const at::Tensor x0 = Vector({0.7}).set_requires_grad(true), y0 = Vector({0.4}).set_requires_grad(true);
  const Variable x_start = LeafOf({0.7}), y = LeafOf({0.4});
  Variable x = x_start;
  at::Tensor eager = x0;
  for (int i = 0; i < 5; ++i) {
    x = step({x, WithGraph(f, f({x, y})[0], {x})[0]})[0];
    eager = eager + 0.05 * torch::autograd::grad({value(eager, y0)}, {eager}, {}, true, true)[0];
  }
  ASSERT_TRUE(autograd::Backward({x}, {Ones(1)}, f.ops()).ok());
  eager.backward();
  ExpectNear(ToTorch(x.tensor()), eager.detach());
  ExpectNear(ToTorch(x_start.grad().tensor()), x0.grad());
  ExpectNear(ToTorch(y.grad().tensor()), y0.grad());
}

// AG-097.
TEST(DoubleBackwardTest, ASecondDerivativeThatDoesNotExistIsUndefined) {
  Compiled f = CompileOf([](const Tensors& in) -> Tensors { return {in[0] * in[1]}; }, 2, 3);
  const Variable x = LeafOf({0.5}), a = LeafOf({1});
  const Variable dy = WithGraph(f, f({x, a})[0], {x})[0];
  EXPECT_THAT(Values(dy), ElementsAre(1));
  EXPECT_FALSE(WithGraph(f, dy, {x})[0].defined());
  const auto unused = autograd::GradWithGraph({dy}, {x}, {Variable(Ones(1))}, f.ops());
  EXPECT_THAT(unused.status().message(), HasSubstr("input 0 appears to not have been used in the graph"));
}

// The gradient of a sum is the tangent itself: a constant.
TEST(DoubleBackwardTest, AConstantGradientDoesNotRequireGrad) {
  Compiled f = CompileOf([](const Tensors& in) -> Tensors { return {in[0] + 2 * in[1]}; }, 2, 2);
  const Variable x = LeafOf({0.5}), y = LeafOf({1});
  const Variables g = WithGraph(f, f({x, y})[0], {x, y});
  EXPECT_THAT(Values(g[0]), ElementsAre(1));
  EXPECT_THAT(Values(g[1]), ElementsAre(2));
  EXPECT_FALSE(g[0].requires_grad());
  EXPECT_FALSE(g[1].requires_grad());
  const Variable tangent = LeafOf({3});
  const Variables with_tangent = *autograd::GradWithGraph({f({x, y})[0]}, {x, y}, {tangent}, f.ops());
  EXPECT_TRUE(with_tangent[0].requires_grad());
  EXPECT_THAT(Values((*autograd::Grad({with_tangent[1]}, {tangent}, {Ones(1)}, f.ops()))[0]), ElementsAre(2));
}

// AG-098: a node of the host program whose backward calls compiled functions. N(x, y) = x + 2 y + x y.
TEST(DoubleBackwardTest, UserNodesHaveRecordedBackwards) {
  Compiled n = CompileOf([](const Tensors& in) -> Tensors { return {in[0] + 2 * in[1] + in[0] * in[1]}; }, 2, 1);
  Compiled scaled = CompileOf([](const Tensors& in) -> Tensors { return {in[0] * (in[1] + 1)}; }, 2, 1);
  Compiled twice = CompileOf([](const Tensors& in) -> Tensors { return {in[0] * (in[1] + 2)}; }, 2, 1);
  const Variable x = LeafOf({3}), y = LeafOf({5});
  const auto plain = [](autograd::BackwardContext&, absl::Span<Tensor>) -> absl::StatusOr<autograd::Gradients> {
    return absl::InternalError("the recorded backward should run");
  };
  const auto recorded = [&](autograd::BackwardContext&,
                            absl::Span<const Variable> incoming) -> absl::StatusOr<Variables> {
    Variable tangent = incoming[0].Detach();
    EXPECT_TRUE(tangent.RequiresGrad(true).ok());
    return Variables{scaled({tangent, y})[0], twice({tangent, x})[0]};
  };
  const Variable out = (*autograd::ApplyFunction("N", {x, y}, {n({x, y})[0].tensor()}, plain, recorded))[0];
  ASSERT_TRUE(autograd::BackwardWithGraph({out}, {Variable(Ones(1))}, n.ops()).ok());
  EXPECT_THAT(Values(x.grad()), ElementsAre(6));
  EXPECT_THAT(Values(y.grad()), ElementsAre(5));
  EXPECT_TRUE(x.grad().requires_grad());
  EXPECT_TRUE(y.grad().requires_grad());
  EXPECT_THAT(Values((*autograd::Grad({x.grad()}, {y}, {Ones(1)}, n.ops()))[0]), ElementsAre(1));
}

// AG-099: nothing is freed early.
TEST(DoubleBackwardTest, TheGraphIsRetained) {
  Compiled f = CompileOf([](const Tensors& in) -> Tensors { return {in[0].exp()}; }, 1, 2);
  const Variable x = LeafOf({0.5});
  const Variable y = f({x})[0];
  const Variable first = WithGraph(f, y, {x})[0];
  const auto again = autograd::Grad({y}, {x}, {Ones(1)}, f.ops());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Values((*again)[0]), Values(first));
}

// AG-100.
TEST(DoubleBackwardTest, RetainedGraphsGiveTheSameTwice) {
  Compiled f = CompileOf([](const Tensors& in) -> Tensors { return {in[0] * in[1] * in[0]}; }, 2, 2, 32);
  const Variable x = ToVariable(Leaf(1, {32})), y = ToVariable(Leaf(2, {32}));
  const Variable dx = WithGraph(f, f({x, y})[0], {x})[0];
  const auto once = autograd::Grad({dx}, {x, y}, {Ones(32)}, f.ops(), {.retain_graph = true});
  const auto twice = autograd::Grad({dx}, {x, y}, {Ones(32)}, f.ops(), {.retain_graph = true});
  ASSERT_TRUE(once.ok() && twice.ok()) << once.status() << twice.status();
  EXPECT_EQ(Values((*once)[0]), Values((*twice)[0]));
  EXPECT_EQ(Values((*once)[1]), Values((*twice)[1]));
}

// AG-101.
TEST(DoubleBackwardTest, HooksRunOnceInTheirOwnBackward) {
  Compiled f = CompileOf([](const Tensors& in) -> Tensors { return {in[0].pow(3)}; }, 1, 2);
  const Variable x = LeafOf({2});
  const Variable y = f({x})[0];
  std::string log;
  autograd::Hooks& hooks = (*y.grad_fn())->MutableHooks();
  hooks.AddPreHook([&](absl::Span<Tensor>) {
    log += "pre ";
    return absl::OkStatus();
  });
  hooks.AddPostHook([&](autograd::Gradients&, absl::Span<const Tensor>) {
    log += "post ";
    return absl::OkStatus();
  });
  const Variable dy = WithGraph(f, y, {x})[0];
  EXPECT_EQ(log, "pre post ");
  EXPECT_THAT(Values((*autograd::Grad({dy}, {x}, {Ones(1)}, f.ops()))[0]), ElementsAre(12));
  EXPECT_EQ(log, "pre post ");
}

TEST(DoubleBackwardTest, AHookThatReplacesAGradientIsRefused) {
  Compiled f = CompileOf([](const Tensors& in) -> Tensors { return {in[0].pow(3)}; }, 1, 2);
  const Variable x = LeafOf({2});
  Variable y = f({x})[0];
  ASSERT_TRUE(y.AddHook([](const Tensor&) -> absl::StatusOr<Tensor> { return Ones(1); }).ok());
  const absl::Status refused = autograd::GradWithGraph({y}, {x}, {Variable(Ones(1))}, f.ops()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(refused.message(), HasSubstr("replaced a gradient"));
}

TEST(DoubleBackwardTest, RetainedGradsHaveHistory) {
  Compiled f = CompileOf([](const Tensors& in) -> Tensors { return {in[0].pow(3)}; }, 1, 2);
  const Variable x = LeafOf({2});
  Variable y = f({x})[0];
  ASSERT_TRUE(y.RetainGrad().ok());
  const Variable z = f({y})[0];  // x^9
  const Variable dx = WithGraph(f, z, {x})[0];
  EXPECT_THAT(Values(dx), ElementsAre(9 * 256));
  EXPECT_THAT(Values(y.grad()), ElementsAre(3 * 64));
  EXPECT_THAT(Values((*autograd::Grad({y.grad()}, {x}, {Ones(1)}, f.ops(), {.retain_graph = true}))[0]),
              ElementsAre(6 * 8 * 12));
  EXPECT_THAT(Values((*autograd::Grad({dx}, {x}, {Ones(1)}, f.ops()))[0]), ElementsAre(72 * 128));
}

// AG-102.
TEST(DoubleBackwardTest, WithoutSavedValuesASecondBackwardNeedsNoRetainedGraph) {
  Compiled f = CompileOf([](const Tensors& in) -> Tensors { return {in[0] + 1}; }, 1, 2);
  const Variable b = LeafOf({1});
  const Variable c = f({b})[0];
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(autograd::Backward({c}, {Ones(1)}, f.ops()).ok());
  EXPECT_THAT(Values(b.grad()), ElementsAre(2));
  EXPECT_THAT(Values(WithGraph(f, c, {b})[0]), ElementsAre(1));
}

TEST(DoubleBackwardTest, AFreedGraphIsRefused) {
  Compiled f = CompileOf([](const Tensors& in) -> Tensors { return {in[0].exp()}; }, 1, 2);
  const Variable x = LeafOf({1});
  const Variable y = f({x})[0];
  ASSERT_TRUE(autograd::Backward({y}, {Ones(1)}, f.ops()).ok());
  const absl::Status refused = autograd::GradWithGraph({y}, {x}, {Variable(Ones(1))}, f.ops()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("retain_graph"));
}

TEST(DoubleBackwardTest, AnArgumentThatWasWrittenIsRefused) {
  Compiled f = CompileOf([](const Tensors& in) -> Tensors { return {in[0] * 2}; }, 1, 2);
  Variable x = LeafOf({1});
  const Variable y = f({x})[0];
  x.BumpVersion();
  const absl::Status refused = autograd::GradWithGraph({y}, {x}, {Variable(Ones(1))}, f.ops()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("modified by an inplace operation: argument 0"));
}

// AG-105, AG-106.
TEST(DoubleBackwardTest, RootsAndInputsAreChecked) {
  Compiled f = CompileOf([](const Tensors& in) -> Tensors { return {in[0] * in[0]}; }, 1, 2, 2);
  const Variable x = ToVariable(Leaf(0, {2})), other = LeafOf({1});
  const Variable y = f({x})[0];
  const Variable one(Ones(2));
  EXPECT_THAT(autograd::GradWithGraph({y}, {other}, {one}, f.ops()).status().message(),
              HasSubstr("not have been used"));
  EXPECT_FALSE((*autograd::GradWithGraph({y}, {other}, {one}, f.ops(), true))[0].defined());
  EXPECT_THAT(autograd::GradWithGraph({one}, {x}, {one}, f.ops()).status().message(),
              HasSubstr("does not require grad"));
  EXPECT_THAT(autograd::GradWithGraph({y}, {x}, {}, f.ops()).status().message(), HasSubstr("scalar outputs"));
  const absl::Status wrong = autograd::GradWithGraph({y}, {x}, {Variable(Ones(3))}, f.ops()).status();
  EXPECT_THAT(wrong.message(), HasSubstr("f64[3]"));
  EXPECT_THAT(wrong.message(), HasSubstr("f64[2]"));
}

// f(f(x)) and views of arguments and results between the calls.
TEST(DoubleBackwardTest, CallsAndViewsAreChained) {
  const auto function = [](const Tensors& in) -> Tensors { return {in[0].sin() * in[0]}; };
  auto f = Compiled::Function(function, {Leaf(0, {2, 3}) * 1}, 2);
  ASSERT_TRUE(f.ok()) << f.status();
  const at::Tensor given = Leaf(3, {3, 4});
  const Variable x = ToVariable(given);
  const auto permuted = x.View({view::Permute{.dims = {1, 0}}, view::Slice{.dim = 0, .start = 1, .end = 3, .step = 1}});
  ASSERT_TRUE(permuted.ok()) << permuted.status();
  const Variable y = (*f)({(*f)({*permuted})[0]})[0];
  const Variable dx = (*autograd::GradWithGraph({y}, {x}, {Variable(ToCotan(torch::ones({2, 3})))}, f->ops()))[0];
  const at::Tensor eager = function({function({given.t().slice(0, 1, 3)})[0]})[0];
  const at::Tensor eager_dx = torch::autograd::grad({eager.sum()}, {given}, {}, true, true)[0];
  ExpectNear(ToTorch(dx.tensor()), eager_dx.detach());
  const Tensor weights = ToCotan(Constant(8, {3, 4}));
  const auto second = autograd::Grad({dx}, {x}, {weights}, f->ops());
  ASSERT_TRUE(second.ok()) << second.status();
  ExpectNear(ToTorch((*second)[0]), torch::autograd::grad({eager_dx}, {given}, {Constant(8, {3, 4})})[0]);
}

// A write in place to a part of a result, between two calls.
TEST(DoubleBackwardTest, WritesToViewsAreDifferentiatedTwice) {
  const auto function = [](const Tensors& in) -> Tensors { return {in[0].pow(3)}; };
  auto f = Compiled::Function(function, {Leaf(0, {2, 2}) * 1}, 2);
  ASSERT_TRUE(f.ok()) << f.status();
  const at::Tensor given = Leaf(3, {2, 2}), source = Leaf(4, {2});
  const Variable x = ToVariable(given), row = ToVariable(source);
  const auto alias = [](const Variable& leaf) { return *leaf.View({view::Alias{}}); };
  const Variable y = (*f)({alias(x)})[0];
  Variable first_row = *y.View({view::Select{.dim = 0, .index = 0}});
  ASSERT_TRUE(first_row.CopyInPlace(row, f->ops()).ok());
  const Variable z = (*f)({y})[0];
  const auto gradients = autograd::GradWithGraph({z}, {x, row}, {Variable(ToCotan(torch::ones({2, 2})))}, f->ops());
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  const at::Tensor eager = function({given})[0];
  eager.select(0, 0).copy_(source);
  const Tensors eager_gradients = torch::autograd::grad({function({eager})[0].sum()}, {given, source}, {}, true, true);
  const auto second =
      autograd::Grad(*gradients, {x, row}, {ToCotan(Constant(5, {2, 2})), ToCotan(Constant(6, {2}))}, f->ops());
  ASSERT_TRUE(second.ok()) << second.status();
  const Tensors eager_second =
      torch::autograd::grad(eager_gradients, {given, source}, {Constant(5, {2, 2}), Constant(6, {2})});
  for (size_t i = 0; i < 2; ++i) {
    ExpectNear(ToTorch((*gradients)[i].tensor()), eager_gradients[i].detach());
    ExpectNear(ToTorch((*second)[i]), eager_second[i]);
  }
}

TEST(DoubleBackwardTest, ResultsOutsideOfTheLossHaveNoGradient) {
  Compiled f = CompileOf([](const Tensors& in) -> Tensors { return {in[1] * in[0].exp(), in[0].pow(3)}; }, 2, 2);
  const Variable x = LeafOf({2}), y = LeafOf({5});
  const Variables first = WithGraph(f, f({x, y})[1], {x, y});
  EXPECT_THAT(Values(first[0]), ElementsAre(12));
  EXPECT_FALSE(first[1].defined());
  const auto second = autograd::Grad({first[0]}, {x}, {Ones(1)}, f.ops());
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_THAT(Values((*second)[0]), ElementsAre(12));
}

}  // namespace
}  // namespace cotan::testing
