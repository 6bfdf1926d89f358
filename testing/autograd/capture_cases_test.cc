// SPDX-License-Identifier: Apache-2.0

// Captures of compiled functions, their cache and their sizes: rows C1 and C2 of cases.txt.
#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "aot/compile.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/function_node.h"
#include "runtime/compiled_autograd/compiled_autograd.h"
#include "runtime/execution/program.h"
#include "runtime/function.h"
#include "runtime/session.h"
#include "testing/autograd/three_ways.h"
#include "testing/e2e/compiled_trainer.h"

namespace cotan::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const CompiledFunction& Product() {
  return Compiled("product", [](const Tensors& in) -> Tensors { return {in[0] * in[1]}; }, {{3, 4}, {1, 4}});
}
const CompiledFunction& Sine() {
  return Compiled("sine", [](const Tensors& in) -> Tensors { return {in[0].sin()}; }, {{1, 4}});
}
const CompiledFunction& Cosine() {
  return Compiled("cosine", [](const Tensors& in) -> Tensors { return {in[0].cos()}; }, {{1, 4}});
}
const CompiledFunction& SumOfThree() {
  return Compiled("sum of three",
                  [](const Tensors& in) -> Tensors { return {at::sigmoid(in[0] + in[1] + in[2]).sum()}; },
                  {{3, 4}, {1, 4}, {1, 4}});
}

TEST(CaptureCasesTest, ContributionsToOneLeafAreAddedInTheWalksOrder) {
  ExpectThreeWays(
      [](World& world) {
        Tensors all;
        const int y = world.Leaf(at::randn({1, 4}));
        for (int round = 0; round < 3; ++round) {
          const int x = world.Leaf(at::randn({3, 4}));
          world.SetGrad(y, at::Tensor());
          const int product = world.Call(Product(), {x, y})[0];
          const int sine = world.Call(Sine(), {y})[0];
          const int cosine = world.Call(Cosine(), {y})[0];
          world.Backward(world.Call(SumOfThree(), {product, sine, cosine}));
          Append(all, GradsOf(world, {x, y}));
        }
        return all;
      },
      /*captures=*/1);
  EXPECT_EQ(CompiledAutograd::Stats().hits, 2);
}

TEST(CaptureCasesTest, GradientsThatTheUserClearsAreDefinedAgain) {
  const Outcome outcome = ExpectThreeWays(
      [](World& world) {
        Tensors all;
        const int y = world.Leaf(at::randn({1, 4}));
        const int z = world.Leaf(at::randn({1, 4}));
        const int x = world.Leaf(at::randn({3, 4}));
        for (int round = 0; round < 3; ++round) {
          for (const int leaf : {x, y, z}) world.SetGrad(leaf, at::Tensor());
          const int product = world.Call(Product(), {x, z})[0];
          const int sine = world.Call(Sine(), {y})[0];
          const int cosine = world.Call(Cosine(), {y})[0];
          world.Backward(world.Call(SumOfThree(), {product, sine, cosine}));
          Append(all, GradsOf(world, {y, z}));
        }
        return all;
      },
      /*captures=*/1);
  for (const at::Tensor& gradient : outcome.gradients) EXPECT_TRUE(gradient.defined());
  EXPECT_EQ(CompiledAutograd::Stats().hits, 2);
}

TEST(CaptureCasesTest, ADeclaredDimensionIsASymbolInTheFirstCapture) {
  ExpectThreeWays(
      [](World& world) {
        Tensors all;
        for (const int64_t rows : {2, 4, 17}) {
          const int x = world.Leaf(at::randn({rows, 3}));
          const CompiledFunction& f = Compiled(
              "sine of sine", [](const Tensors& in) -> Tensors { return {in[0].sin().sin()}; }, {{2, 3}},
              /*dynamic=*/true);
          world.Backward(world.Call(f, {x}));
          Append(all, GradsOf(world, {x}));
        }
        return all;
      },
      /*captures=*/1);
  EXPECT_EQ(CompiledAutograd::Stats().plans, 3);
}

TEST(CaptureCasesTest, ABatchOfOneIsACaseOfItsOwn) {
  const CompiledFunction linear =
      CompileFor([](const Tensors& in) -> Tensors { return {at::sigmoid(at::linear(in[0], in[1], in[2]))}; },
                 {Example({3, 4}), Example({5, 4}), Example({5})}, {.dynamic_dims = {{0, 0, "batch", 1, 200}}});
  ExpectThreeWays(
      [&linear](World& world) {
        Tensors all;
        for (const int64_t batch : {1, 2, 3}) {
          const int x = world.Leaf(at::randn({batch, 4}));
          const int w = world.Leaf(at::randn({5, 4}));
          const int b = world.Leaf(at::randn({5}));
          world.Backward(world.Call(linear, {x, w, b}));
          Append(all, GradsOf(world, {x, w, b}));
        }
        return all;
      },
      /*captures=*/2);
}

// CA-014. The numbers of a slice: sizes and strides of its source and of itself, their offsets, and the elements from
// the first to the last; then those of its gradient and of the source's.
TEST(CaptureCasesTest, ReasonsNameTheNewNodeOrTheSizesThatChanged) {
  ExpectThreeWays(
      [](World& world) {
        const CompiledFunction& total =
            Compiled("total of rows", [](const Tensors& in) -> Tensors { return {in[0].sum()}; }, {{2, 4}});
        Tensors all;
        const auto run = [&](at::IntArrayRef sizes, const ViewStep& step) {
          const int x = world.Leaf(at::randn(sizes));
          world.Backward(world.Call(total, {world.View(x, step)}));
          Append(all, GradsOf(world, {x}));
        };
        for (const int64_t rows : {5, 6}) run({rows, 4}, view::Slice{.dim = 0, .start = 0, .end = 2, .step = 1});
        run({4, 2}, view::Permute{.dims = {1, 0}});
        return all;
      },
      /*captures=*/3);
  EXPECT_THAT(CompiledAutograd::Reasons(),
              ElementsAre("new node total of rows.CompiledBackward('forward') (node call 0)",
                          "3 changed sizes (total of 15): sizes[0], sizes[10], sizes[13]",
                          "new node PermuteBackward (node call 1)"));
}

TEST(CaptureCasesTest, CapturesAndWalksAreLoggedWhenTheyHappen) {
  const CompiledFunction square =
      CompileFor([](const Tensors& in) -> Tensors { return {in[0] * in[0]}; }, {Example({2})});
  Session session =
      *Session::Create(*Program::LoadBytes(square.bytes, "square"), {.kernels = &CpuKernels(), .threads = 1});
  Function f = *Function::Create(session, "forward");
  ASSERT_TRUE(CompiledAutograd::Reset().ok());
  std::vector<std::string> lines;
  CompiledAutograd scope({.log = [&lines](absl::string_view line) { lines.emplace_back(line); }});
  const auto run = [&](Variable x, const Tensor& tangent) {
    const auto results = f.Call({x});
    ASSERT_TRUE(results.ok()) << results.status();
    const absl::Status status = autograd::Backward({std::get<Variable>((*results)[0])}, {tangent}, session.ops());
    ASSERT_TRUE(status.ok()) << status;
  };
  const Tensor ones = *session.ops().Ones(DType::kFloat32, {2});
  const std::string nodes = " 2 nodes from square.CompiledBackward('forward') on: ";
  const std::string captured = "captured" + nodes + "new node square.CompiledBackward('forward') (node call 0)";
  for (int round = 0; round < 2; ++round) {
    run(*Variable::Leaf(*ToCotan(at::randn({2}))), ones);
    EXPECT_THAT(lines, ElementsAre(captured)) << "one that is found again is not logged";
  }
  Variable x = *Variable::Leaf(*ToCotan(at::randn({2})));
  ASSERT_TRUE(x.SetGrad(Variable(ones)).ok());
  run(x, x.grad().tensor());
  ASSERT_EQ(lines.size(), 2);
  EXPECT_EQ(lines[1], CompiledAutograd::Messages().back());
  EXPECT_THAT(lines[1], HasSubstr("walked" + nodes + "a grad() that the backward adds to shares memory"));
}

// CA-021.
TEST(CaptureCasesTest, RowsAndColumnsOfAProductAreSymbols) {
  const CompiledFunction total = CompileFor(
      [](const Tensors& in) -> Tensors { return {at::matmul(in[0], in[1]).sum()}; }, {Example({3, 4}), Example({4, 5})},
      {.dynamic_dims = {{0, 0, "rows", 2, 200}, {1, 1, "columns", 2, 200}}});
  ExpectThreeWays(
      [&total](World& world) {
        Tensors all;
        for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{{3, 5}, {7, 2}, {6, 9}}) {
          const int x = world.Leaf(at::randn({rows, 4}));
          const int y = world.Leaf(at::randn({4, columns}));
          world.Backward(world.Call(total, {x, y}));
          Append(all, GradsOf(world, {x, y}));
        }
        return all;
      },
      /*captures=*/1);
  EXPECT_EQ(CompiledAutograd::Stats().plans, 3);
  EXPECT_EQ(CompiledAutograd::Stats().called_nodes, 0);
}

TEST(CaptureCasesTest, NoSizeOfTwoProgramsIsBurntIn) {
  ExpectThreeWays(
      [](World& world) {
        const CompiledFunction& narrow = Compiled(
            "narrow", [](const Tensors& in) -> Tensors { return {in[0].sin().sum()}; }, {{9, 5}}, /*dynamic=*/true);
        const CompiledFunction& wide = Compiled(
            "wide", [](const Tensors& in) -> Tensors { return {in[0].exp().sum()}; }, {{9, 7}}, /*dynamic=*/true);
        const CompiledFunction& sum =
            Compiled("scalars", [](const Tensors& in) -> Tensors { return {in[0] * in[1] + in[2]}; }, {{}, {}, {}});
        Tensors all;
        for (const auto& [a, b] : std::vector<std::pair<int64_t, int64_t>>{{101, 102}, {104, 105}, {107, 103}}) {
          const int x = world.Leaf(at::randn({a, 5}));
          const int y = world.Leaf(at::randn({b, 7}));
          const int z = world.Leaf(at::randn({}));
          world.Backward(world.Call(sum, {world.Call(narrow, {x})[0], world.Call(wide, {y})[0], z}));
          Append(all, GradsOf(world, {x, y, z}));
        }
        return all;
      },
      /*captures=*/1);
  EXPECT_EQ(CompiledAutograd::Stats().hits, 2);
  EXPECT_THAT(CompiledAutograd::Text(), Not(HasSubstr("101")));
  EXPECT_THAT(CompiledAutograd::Text(), Not(HasSubstr("102")));
}

TEST(CaptureCasesTest, AHookInsideOfAProgramIsPartOfItsBackward) {
  const Outcome outcome = ExpectThreeWays(
      [](World& world) {
        const CompiledFunction& f =
            Compiled("hook inside",
                     [](const Tensors& in) -> Tensors {
                       const at::Tensor y = in[0].sin();
                       const at::Tensor kept = y.detach();
                       y.register_hook([kept](const at::Tensor& g) { return g + 88 + (kept + 1); });
                       return {y.sin()};
                     },
                     {{4}});
        const int x = world.Leaf(at::ones({4}));
        world.Backward(world.Call(f, {x}));
        return GradsOf(world, {x});
      },
      /*captures=*/1);
  EXPECT_NEAR(outcome.gradients[0][0].item<double>(), 48.9015934, 1e-5);
}

TEST(CaptureCasesTest, AHookInsideOfARecomputedProgramRunsOnTheSum) {
  const CompiledFunction f = CompileFor(
      [](const Tensors& in) -> Tensors {
        const at::Tensor y = 2 * in[0];
        y.register_hook([](const at::Tensor& g) { return 0.5 * g; });
        return {y.clone() + y};
      },
      {Example({4})}, {.activation_memory_budget = 0});
  const Outcome outcome = ExpectThreeWays(
      [&f](World& world) {
        const int x = world.Leaf(at::ones({4}));
        world.Backward(world.Call(f, {x}));
        return GradsOf(world, {x});
      },
      /*captures=*/1);
  EXPECT_TRUE(at::equal(outcome.gradients[0], at::full({4}, 2.0)));
}

TEST(CaptureCasesTest, AHookMayDrawFromAGeneratorOfItsOwn) {
  const Outcome outcome = ExpectThreeWays(
      [](World& world) {
        const CompiledFunction& squares =
            Compiled("sum of squares", [](const Tensors& in) -> Tensors { return {(in[0] * in[0]).sum()}; }, {{1, 4}});
        at::Generator own = at::make_generator<at::CPUGeneratorImpl>(17);
        const at::Tensor stored = own.get_state();
        const at::Generator& ambient = at::detail::getDefaultCPUGenerator();
        Tensors all;
        for (int round = 0; round < 2; ++round) {
          const int x = world.Leaf(at::randn({1, 4}));
          world.TensorHook(x, [&own, &stored](const at::Tensor& g) {
            own.set_state(stored);
            return at::rand(g.sizes(), own);
          });
          const int total = world.Call(squares, {x})[0];
          const at::Tensor before = ambient.get_state();
          world.Backward({total});
          EXPECT_TRUE(at::equal(ambient.get_state(), before));
          Append(all, GradsOf(world, {x}));
          all.push_back(at::randn({3}));  // of the ambient generator
        }
        return all;
      },
      /*captures=*/1);
  at::Generator same = at::make_generator<at::CPUGeneratorImpl>(17);
  EXPECT_TRUE(at::equal(outcome.gradients[0], at::rand({1, 4}, same)));
  EXPECT_TRUE(at::equal(outcome.gradients[2], outcome.gradients[0]));
}

// Twice x; the backward draws numbers that are not used.
struct DrawsInBackward : torch::autograd::Function<DrawsInBackward> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return 2 * x; }
  static Tensors backward(torch::autograd::AutogradContext*, const Tensors& gradients) {
    at::randn({10, 10});
    return {2 * gradients[0]};
  }
};

TEST(CaptureCasesTest, UnusedDrawsOfAProgramMoveItsGenerator) {
  const CompiledFunction f =
      CompileFor([](const Tensors& in) -> Tensors { return {DrawsInBackward::apply(in[0])}; }, {Example({4})});
  std::vector<RngState> moved;
  for (const bool captured : {false, true}) {
    ASSERT_TRUE(CompiledAutograd::Reset().ok());
    Session session = *Session::Create(*Program::LoadBytes(f.bytes), {.kernels = &CpuKernels(), .threads = 1});
    Function called = *Function::Create(session, "forward");
    for (int round = 0; round < 2; ++round) {
      const Variable x = *Variable::Leaf(*ToCotan(at::ones({4})));
      const auto results = called.Call({x});
      ASSERT_TRUE(results.ok()) << results.status();
      const auto scope = captured ? std::make_unique<CompiledAutograd>() : nullptr;
      const Tensor ones = *session.ops().Ones(DType::kFloat32, {4});
      ASSERT_TRUE(autograd::Backward({std::get<Variable>((*results)[0])}, {ones}, session.ops()).ok());
      EXPECT_EQ(*x.grad().tensor().ToVector<float>(), std::vector<float>(4, 2));
      const auto rng = session.Rng();
      ASSERT_TRUE(rng.ok()) << rng.status();
      moved.push_back(*rng);
    }
  }
  EXPECT_EQ(CompiledAutograd::Stats().captures, 1);
  EXPECT_GE(moved[0].offset, 100 / 4);
  EXPECT_EQ(moved[1].offset, 2 * moved[0].offset);
  EXPECT_TRUE(moved[2] == moved[0] && moved[3] == moved[1]);
}

TEST(CaptureCasesTest, WhatIsWrittenInPlaceIsComputedAgainOnACopy) {
  const CompiledFunction f = CompileFor(
      [](const Tensors& in) -> Tensors {
        at::Tensor m = in[0] * in[0];
        m += 5;
        return {m * m};
      },
      {Example({4})}, {.activation_memory_budget = 0});
  ExpectThreeWays(
      [&f](World& world) {
        Tensors all;
        for (int round = 0; round < 2; ++round) {
          const int x = world.Leaf(at::randn({4}));
          const int y = world.Call(f, {x})[0];
          world.Backward({y});
          Append(all, GradsOf(world, {x}));
          all.push_back(world.Value(y).detach().clone());
        }
        return all;
      },
      /*captures=*/1);
}

TEST(CaptureCasesTest, AProgramWithoutABackwardIsRefused) {
  const CompiledFunction sine =
      CompileFor([](const Tensors& in) -> Tensors { return {in[0].sin()}; }, {at::randn({4})});
  Session session = *Session::Create(*Program::LoadBytes(sine.bytes), {.kernels = &CpuKernels()});
  Function f = *Function::Create(session, "forward");
  const Variable x = *Variable::Leaf(*ToCotan(at::randn({4})));
  CompiledAutograd scope;
  const absl::Status status = f.Call({x}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("grad when the program was traced"));
}

TEST(CaptureCasesTest, ANodeMayCallAProgramWithoutABackward) {
  const CompiledFunction square =
      CompileFor([](const Tensors& in) -> Tensors { return {in[0] * in[0]}; }, {at::randn({2})});
  Session session = *Session::Create(*Program::LoadBytes(square.bytes), {.kernels = &CpuKernels(), .threads = 1});
  Function f = *Function::Create(session, "forward");
  ASSERT_TRUE(CompiledAutograd::Reset().ok());
  CompiledAutograd scope;
  for (int round = 0; round < 2; ++round) {
    const Variable x = *Variable::Leaf(*Tensor::From<float>({2, 3}, {2}));
    const auto backward = [&f](autograd::BackwardContext&,
                               absl::Span<Tensor> incoming) -> absl::StatusOr<autograd::Gradients> {
      auto results = f.Call({Variable(incoming[0])});
      if (!results.ok()) return results.status();
      return autograd::Gradients{std::get<Variable>((*results)[0]).tensor()};
    };
    const Variable y = (*autograd::ApplyFunction("Squares", {x}, {*x.tensor().Clone()}, backward))[0];
    const Tensor ones = *session.ops().Ones(DType::kFloat32, {2});
    const absl::Status status = autograd::Backward({y}, {ones}, session.ops());
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(*x.grad().tensor().ToVector<float>(), std::vector<float>({1, 1}));
  }
  EXPECT_EQ(CompiledAutograd::Stats().backwards, 2);
  EXPECT_EQ(CompiledAutograd::Stats().captures, 1);
}

TEST(CaptureCasesTest, OneResultAndTwoResults) {
  const Outcome outcome = ExpectThreeWays(
      [](World& world) {
        const CompiledFunction& one =
            Compiled("doubled", [](const Tensors& in) -> Tensors { return {2 * in[0]}; }, {{4}});
        const CompiledFunction& two = Compiled("doubled and tripled",
                                               [](const Tensors& in) -> Tensors {
                                                 return {2 * in[0], 3 * in[0]};
                                               },
                                               {{4}});
        const int x = world.Leaf(at::ones({4}));
        const int y = world.Leaf(at::ones({4}));
        world.Backward(world.Call(one, {x}));
        world.Backward(world.Call(two, {y}));
        return GradsOf(world, {x, y});
      },
      /*captures=*/2);
  EXPECT_TRUE(at::equal(outcome.gradients[0], at::full({4}, 2.0)));
  EXPECT_TRUE(at::equal(outcome.gradients[1], at::full({4}, 5.0)));
}

TEST(CaptureCasesTest, ABackwardTakesAGradientPerResult) {
  const CompiledFunction& f = Compiled("three results",
                                       [](const Tensors& in) -> Tensors {
                                         return {in[0] + 1, 2 * in[0], in[0] - 1};
                                       },
                                       {{4}});
  const Outcome outcome = ExpectThreeWays(
      [&f](World& world) {
        const int x = world.Leaf(at::ones({4}));
        world.Backward(world.Call(f, {x}));
        return GradsOf(world, {x});
      },
      /*captures=*/1);
  EXPECT_TRUE(at::equal(outcome.gradients[0], at::full({4}, 4.0)));

  Session session = *Session::Create(*Program::LoadBytes(f.bytes), {.kernels = &CpuKernels()});
  Function called = *Function::Create(session, "forward");
  const auto results = called.Call({*Variable::Leaf(*ToCotan(at::ones({4})))});
  ASSERT_TRUE(results.ok()) << results.status();
  const auto edge = std::get<Variable>((*results)[0]).GradientEdge();
  ASSERT_TRUE(edge.ok()) << edge.status();
  EXPECT_EQ(edge->node->num_inputs(), 3);
  const bool needed[] = {true};
  autograd::BackwardContext context(session.ops(), needed);
  std::vector<Tensor> tangents(2, *session.ops().Ones(DType::kFloat32, {4}));
  EXPECT_THAT(edge->node->Apply(context, absl::MakeSpan(tangents)).status().message(),
              HasSubstr("takes 3 gradients, got 2"));
}

TEST(CaptureCasesTest, GradientsOfAWrittenArgumentAndOfAResultAreToldApart) {
  const CompiledFunction f = CompileFor(
      [](const Tensors& in) -> Tensors {
        in[0].mul_(3);
        return {2 * in[1]};
      },
      {Example({1, 4}).clone(), Example({1, 4})});
  const Outcome outcome = ExpectThreeWays(
      [&f](World& world) {
        const int a = world.Leaf(at::randn({1, 4}));
        const int y = world.Leaf(at::randn({1, 4}));
        const int x = world.Call(Sine(), {a})[0];
        const int result = world.Call(f, {x, y})[0];
        world.Backward({x, result});
        return GradsOf(world, {a, y});
      },
      /*captures=*/1);
  EXPECT_TRUE(at::equal(outcome.gradients[1], at::full({1, 4}, 2.0)));
}

}  // namespace
}  // namespace cotan::testing
