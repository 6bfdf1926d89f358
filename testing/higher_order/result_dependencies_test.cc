// SPDX-License-Identifier: Apache-2.0

// Gradients of a result of a compiled function with respect to another result of the same call (#132929), or to an
// argument that the call has written: refused where the function computes the one from the other, and eager's where it
// does not. So are gradients that hooks and RetainGrad() ask for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <optional>
#include <string>
#include <vector>

#include "runtime/autograd/double_backward.h"
#include "runtime/autograd/engine.h"
#include "runtime/compiled_autograd/compiled_autograd.h"
#include "testing/higher_order/compiled.h"

namespace cotan::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Compiled CompileOf(const aot::TensorFunction& function, int order = 1) {
  absl::StatusOr<Compiled> compiled = Compiled::Function(function, {Leaf(0, {1})}, order);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *std::move(compiled);
}

Variable LeafOf(double value) { return *Variable::Leaf(ToCotan(torch::full({1}, value, torch::kDouble))); }
Tensor One() { return ToCotan(torch::ones({1}, torch::kDouble)); }
std::vector<double> Values(const Tensor& tensor) { return *tensor.ToVector<double>(); }

void ExpectRefused(const absl::Status& status, const std::string& result, const std::string& source) {
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_THAT(status.message(), HasSubstr("'forward' computes " + result + " from " + source));
}

// Returns 2x and its square.
Tensors Square(const Tensors& in) {
  const at::Tensor h = in[0] * 2;
  return {h, h * h};
}

TEST(ResultDependenciesTest, AGradientWithRespectToAResultThatAnotherOneIsComputedFromIsRefused) {
  Compiled f = CompileOf(Square);
  const Variable x = LeafOf(3);
  const Variables results = f({x});
  for (const bool allow_unused : {false, true}) {
    const autograd::GradOptions options = {.retain_graph = true, .allow_unused = allow_unused};
    ExpectRefused(autograd::Grad({results[1]}, {results[0]}, {One()}, f.ops(), options).status(), "output 1",
                  "output 0");
    ExpectRefused(autograd::Grad({results[0], results[1]}, {x, results[0]}, {One(), One()}, f.ops(), options).status(),
                  "output 1", "output 0");
  }
  const autograd::BackwardOptions into_result = {.retain_graph = true, .inputs = Variables{results[0]}};
  ExpectRefused(autograd::Backward({results[1]}, {One()}, f.ops(), into_result), "output 1", "output 0");
}

TEST(ResultDependenciesTest, NodesBehindTheCallAndCapturedBackwardsAreRefusedAsWell) {
  Compiled f = CompileOf(Square), g = CompileOf(Square);
  const Variables results = f({LeafOf(3)});
  const Variable behind = g({results[1]})[0];
  const CompiledAutograd captured;
  ExpectRefused(autograd::Grad({behind}, {results[0]}, {One()}, f.ops(), {.allow_unused = true}).status(), "output 1",
                "output 0");
}

TEST(ResultDependenciesTest, ARecordedBackwardRefusesIt) {
  Compiled f = CompileOf(Square, /*order=*/2);
  const Variables results = f({LeafOf(3)});
  const auto gradient =
      autograd::GradWithGraph({results[1]}, {results[0]}, {Variable(One())}, f.ops(), /*allow_unused=*/true);
  ExpectRefused(gradient.status(), "output 1", "output 0");
}

TEST(ResultDependenciesTest, WhatTheCallerComputesFromAResultHasItsGradient) {
  Compiled f = CompileOf(Square), g = CompileOf(Square);
  const Variables results = f({LeafOf(3)});
  const Variable y = g({results[0]})[1];  // (2h)^2 with h = 6
  const auto gradient = autograd::Grad({y}, {results[0]}, {One()}, f.ops());
  ASSERT_TRUE(gradient.ok()) << gradient.status();
  EXPECT_THAT(Values((*gradient)[0]), ElementsAre(48));
}

TEST(ResultDependenciesTest, TheEarlierResultHasNoGradientWithRespectToTheLaterOne) {
  Compiled f = CompileOf(Square);
  const Variables results = f({LeafOf(3)});
  const auto gradient = autograd::Grad({results[0]}, {results[1]}, {One()}, f.ops(), {.allow_unused = true});
  ASSERT_TRUE(gradient.ok()) << gradient.status();
  EXPECT_FALSE((*gradient)[0].defined());
}

// --- hooks and retained gradients ---

// Adds a hook that keeps the gradient, or retains the gradient.
void Watch(Variable value, bool retains) {
  const auto keep = [](const Tensor&) -> absl::StatusOr<Tensor> { return Tensor(); };
  const absl::Status added = retains ? value.RetainGrad() : value.AddHook(keep).status();
  ASSERT_TRUE(added.ok()) << added;
}

TEST(ResultDependenciesTest, AHookOrRetainedGradientOfAResultThatAnotherOneIsComputedFromIsRefused) {
  Compiled f = CompileOf(Square);
  for (const bool retains : {false, true}) {
    for (const bool captures : {false, true}) {
      std::optional<CompiledAutograd> captured;
      if (captures) captured.emplace();
      const Variable x = LeafOf(3);
      const Variables results = f({x});
      Watch(results[0], retains);
      const absl::Status refused = autograd::Backward({results[1]}, {One()}, f.ops());
      ExpectRefused(refused, "output 1", "output 0");
      EXPECT_THAT(refused.message(), HasSubstr("A hook or RetainGrad() asks for this gradient"));
      ExpectRefused(autograd::Backward(results, {One(), One()}, f.ops()), "output 1", "output 0");
      ExpectRefused(autograd::Backward({results[1]}, {One()}, f.ops(), {.create_graph = true}), "output 1", "output 0");
      ExpectRefused(autograd::Grad({results[1]}, {x}, {One()}, f.ops()).status(), "output 1", "output 0");
      EXPECT_FALSE(results[0].grad().defined());
      EXPECT_FALSE(x.grad().defined());
    }
  }
}

TEST(ResultDependenciesTest, AHookOfAResultSeesEagersGradientIfNoneThatIsComputedFromItIsReached) {
  Tensors eager = Square({torch::full({1}, 3.0, torch::kDouble).requires_grad_()});
  eager[0].retain_grad();
  Square({eager[0]})[1].sum().backward();

  Compiled f = CompileOf(Square), g = CompileOf(Square);
  const Variable x = LeafOf(3);
  Variables results = f({x});
  std::vector<double> seen;
  const auto note = [&seen](const Tensor& gradient) -> absl::StatusOr<Tensor> {
    seen.push_back(Values(gradient)[0]);
    return Tensor();
  };
  const autograd::HookId id = *results[0].AddHook(note);
  const absl::Status ran = autograd::Backward({g({results[0]})[1]}, {One()}, f.ops(), {.retain_graph = true});
  ASSERT_TRUE(ran.ok()) << ran;
  EXPECT_THAT(seen, ElementsAre(eager[0].grad().item<double>()));

  // The last result has no others computed from it.
  ASSERT_TRUE(results[0].RemoveHook(id));
  ASSERT_TRUE(results[1].AddHook(note).ok());
  const absl::Status last = autograd::Backward({results[1]}, {One()}, f.ops());
  ASSERT_TRUE(last.ok()) << last;
  EXPECT_THAT(seen, ElementsAre(48, 1));
  EXPECT_THAT(Values(x.grad().tensor()), ElementsAre(2 * 48 + 24));
}

TEST(ResultDependenciesTest, ARefusedBackwardIntoAResultLeavesLaterOnesAsTheyWere) {
  Compiled f = CompileOf(Square);
  const Variable x = LeafOf(3);
  const Variables results = f({x});
  const autograd::BackwardOptions into_result = {.inputs = Variables{results[0]}};
  ExpectRefused(autograd::Backward({results[1]}, {One()}, f.ops(), into_result), "output 1", "output 0");
  const absl::Status ran = autograd::Backward({results[1]}, {One()}, f.ops());
  ASSERT_TRUE(ran.ok()) << ran;
  EXPECT_THAT(Values(x.grad().tensor()), ElementsAre(24));
  EXPECT_FALSE(results[0].grad().defined());
}

// --- written arguments ---

// Doubles the argument in place and returns three times its new value.
Tensors TripleOfTwice(const Tensors& in) {
  at::Tensor x = in[0];
  x.mul_(2);
  return {x * 3};
}

class WrittenArgumentTest : public ::testing::Test {
 protected:
  static Compiled CompileFor(const aot::TensorFunction& function, const at::Tensor& example) {
    absl::StatusOr<Compiled> compiled = Compiled::Function(function, {example}, /*order=*/1);
    EXPECT_TRUE(compiled.ok()) << compiled.status();
    return *std::move(compiled);
  }

  Compiled copy_ = CompileFor([](const Tensors& in) -> Tensors { return {in[0] * 1}; }, Leaf(0, {2}));
  Compiled f_ = CompileFor(TripleOfTwice, Leaf(0, {2}) * 1);
  Compiled of_one_ = CompileFor(TripleOfTwice, Leaf(0, {1}) * 1);
  const Tensor ones_ = ToCotan(torch::ones({2}, torch::kDouble));
  const Variable leaf_ = ToVariable(Leaf(0, {2}));
};

TEST_F(WrittenArgumentTest, AGradientWithRespectToItThatArrivesAtAResultIsRefused) {
  const at::Tensor eager = Leaf(0, {2}) * 1, eager_y = TripleOfTwice({eager})[0];
  const at::Tensor whole = torch::autograd::grad({(eager + eager_y).sum()}, {eager})[0];
  EXPECT_TRUE(at::equal(whole, 4 * torch::ones({2}, torch::kDouble)));

  const Variable x = copy_({leaf_})[0], y = f_({x})[0];
  const autograd::GradOptions options = {.retain_graph = true, .allow_unused = true};
  const std::string source = "the new value of input 0";
  ExpectRefused(autograd::Grad({x, y}, {x}, {ones_, ones_}, f_.ops(), options).status(), "output 0", source);
  ExpectRefused(autograd::Grad({y}, {x}, {ones_}, f_.ops(), options).status(), "output 0", source);
  const autograd::BackwardOptions into_x = {.inputs = Variables{x}};
  ExpectRefused(autograd::Backward({x, y}, {ones_, ones_}, f_.ops(), into_x), "output 0", source);

  const auto own = autograd::Grad({x}, {x}, {ones_}, f_.ops(), options);
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_THAT(Values((*own)[0]), ElementsAre(1, 1));
  const absl::Status ran = autograd::Backward({x, y}, {ones_, ones_}, f_.ops());
  ASSERT_TRUE(ran.ok()) << ran;
  EXPECT_THAT(Values(leaf_.grad().tensor()), ElementsAre(8, 8));
}

TEST_F(WrittenArgumentTest, SoIsAHookOrRetainedGradientAfterTheWrite) {
  for (const bool retains : {false, true}) {
    const Variable x = copy_({leaf_})[0], y = f_({x})[0];
    Watch(x, retains);
    ExpectRefused(autograd::Backward({x, y}, {ones_, ones_}, f_.ops()), "output 0", "the new value of input 0");
    ExpectRefused(autograd::Backward({y}, {ones_}, f_.ops()), "output 0", "the new value of input 0");
    const absl::Status ran = autograd::Backward({x}, {ones_}, f_.ops());
    ASSERT_TRUE(ran.ok()) << ran;
    if (retains) {
      EXPECT_THAT(Values(x.grad().tensor()), ElementsAre(1, 1));
    }
  }
}

TEST_F(WrittenArgumentTest, AHookBeforeTheWriteSeesEagersGradient) {
  at::Tensor eager = Leaf(0, {2}) * 1;
  at::Tensor expected;
  eager.register_hook([&expected](const at::Tensor& gradient) { expected = gradient; });
  (eager + TripleOfTwice({eager})[0]).sum().backward();

  Variable x = copy_({leaf_})[0];
  std::vector<std::vector<double>> seen;
  const auto note = [&seen](const Tensor& gradient) -> absl::StatusOr<Tensor> {
    seen.push_back(Values(gradient));
    return Tensor();
  };
  ASSERT_TRUE(x.AddHook(note).ok());
  const Variable y = f_({x})[0];
  const absl::Status ran = autograd::Backward({x, y}, {ones_, ones_}, f_.ops());
  ASSERT_TRUE(ran.ok()) << ran;
  const double gradient = expected[0].item<double>();
  EXPECT_THAT(seen, ElementsAre(ElementsAre(gradient, gradient)));
}

TEST_F(WrittenArgumentTest, AViewAndItsBaseAreRefusedButNotAnotherView) {
  const Variable base = copy_({leaf_})[0];
  const Variable part = *base.View({view::Slice{.dim = 0, .start = 1, .end = 2}});
  const Variable y = of_one_({part})[0];
  const Variable other = *base.View({view::Slice{.dim = 0, .start = 1, .end = 2}});
  const autograd::GradOptions options = {.retain_graph = true, .allow_unused = true};
  const std::string source = "the new value of input 0";
  for (const Variable& input : {part, base}) {
    ExpectRefused(autograd::Grad({y}, {input}, {One()}, copy_.ops(), options).status(), "output 0", source);
    ExpectRefused(autograd::Grad({other, y}, {input}, {One(), One()}, copy_.ops(), options).status(), "output 0",
                  source);
  }
  const auto gradient = autograd::Grad({other, y}, {other}, {One(), One()}, copy_.ops(), options);
  ASSERT_TRUE(gradient.ok()) << gradient.status();
  EXPECT_THAT(Values((*gradient)[0]), ElementsAre(1));
  Watch(base, /*retains=*/true);
  ExpectRefused(autograd::Backward({y}, {One()}, copy_.ops()), "output 0", source);
}

// --- independent results ---

// The second result computes the same product once more, which is another value for autograd.
TEST(ResultDependenciesTest, ResultsThatAreComputedFromArgumentsAloneAreIndependentAsInEager) {
  const auto function = [](const Tensors& in) -> Tensors { return {in[0] * 2, (in[0] * 2) * (in[0] * 2)}; };
  Compiled f = CompileOf(function);
  const Variables results = f({LeafOf(3)});
  const auto gradient = autograd::Grad({results[1]}, {results[0]}, {One()}, f.ops(), {.allow_unused = true});
  ASSERT_TRUE(gradient.ok()) << gradient.status();
  EXPECT_FALSE((*gradient)[0].defined());

  const Tensors eager = function({torch::full({1}, 3.0, torch::kDouble).requires_grad_()});
  EXPECT_FALSE(torch::autograd::grad({eager[1]}, {eager[0]}, {}, false, false, /*allow_unused=*/true)[0].defined());
}

}  // namespace
}  // namespace cotan::testing
