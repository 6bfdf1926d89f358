// SPDX-License-Identifier: Apache-2.0

// What is asked of backwards of compiled functions, beside LibTorch eager: zeros for unused inputs, backwards between
// edges, and what a hook knows of its backward. Rows of cases.txt about double backward, edges and refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/torch.h>

#include <complex>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "runtime/autograd/double_backward.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/node.h"
#include "testing/autograd/walked_and_captured.h"
#include "testing/higher_order/compiled.h"

namespace cotan::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Compiled Compile(const aot::TensorFunction& function, const Tensors& examples, int order = 1) {
  auto compiled = Compiled::Function(function, examples, order);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *std::move(compiled);
}

Tensor Ones(int64_t n) { return ToCotan(torch::ones({n}, torch::kDouble)); }

Tensors Product(const Tensors& in) { return {in[0] * in[1]}; }

// AG-097.
TEST(GradCasesTest, ASecondDerivativeThatDoesNotExistMayBeZeros) {
  const at::Tensor eager_x = Leaf(0, {2}), eager_a = Leaf(1, {2}), ones = torch::ones({2}, torch::kDouble);
  const at::Tensor eager = torch::autograd::grad(Product({eager_x, eager_a}), {eager_x}, {ones}, {}, true)[0];
  EXPECT_FALSE(torch::autograd::grad({eager}, {eager_x}, {ones}, true, false, /*allow_unused=*/true)[0].defined());

  Compiled f = Compile(Product, {Leaf(0, {2}), Leaf(1, {2})}, 3);
  const Variable x = ToVariable(Leaf(0, {2})), a = ToVariable(Leaf(1, {2})), one(Ones(2));
  const auto first = autograd::GradWithGraph(f({x, a}), {x}, {one}, f.ops());
  ASSERT_TRUE(first.ok()) << first.status();
  ExpectNear(ToTorch((*first)[0].tensor()), eager.detach());
  const auto undefined = autograd::GradWithGraph(*first, {x}, {one}, f.ops(), /*allow_unused=*/true);
  ASSERT_TRUE(undefined.ok()) << undefined.status();
  EXPECT_FALSE((*undefined)[0].defined());
  const auto second = autograd::GradWithGraph(*first, {x, a}, {one}, f.ops(), true, /*materialize_grads=*/true);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_THAT(*(*second)[0].tensor().ToVector<double>(), ElementsAre(0, 0));
  EXPECT_THAT(*(*second)[1].tensor().ToVector<double>(), ElementsAre(1, 1));
  const auto third = autograd::Grad({(*second)[0]}, {x}, {Ones(2)}, f.ops(), {.materialize_grads = true});
  ASSERT_TRUE(third.ok()) << third.status();
  EXPECT_THAT(*(*third)[0].ToVector<double>(), ElementsAre(0, 0));
}

TEST(GradCasesTest, UnusedInputsAreZerosOnlyIfTheyAreAllowed) {
  Compiled f = Compile(Product, {Leaf(0, {2}), Leaf(1, {2})});
  WalkedAndCaptured([&] {
    const Variable x = ToVariable(Leaf(0, {2})), a = ToVariable(Leaf(1, {2})), other = ToVariable(Leaf(2, {3}));
    const Variables y = f({x, a});
    const auto gradients =
        autograd::Grad(y, {x, other}, {Ones(2)}, f.ops(), {.retain_graph = true, .materialize_grads = true});
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    ExpectNear(ToTorch((*gradients)[0]), Constant(1, {2}));
    EXPECT_THAT(*(*gradients)[1].ToVector<double>(), ElementsAre(0, 0, 0));
    const absl::Status refused =
        autograd::Grad(y, {x, other}, {Ones(2)}, f.ops(), {.allow_unused = false, .materialize_grads = true}).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(refused.message(), HasSubstr("expected allow_unused to be true or unset"));
    EXPECT_THAT(autograd::Grad(y, {x, other}, {Ones(2)}, f.ops()).status().message(),
                HasSubstr("input 1 appears to not have been used in the graph"));
  });
}

Tensors Square(const Tensors& in) { return {in[0] * in[0]}; }

// AG-103.
TEST(GradCasesTest, ABackwardBeginsAtAnEdgeWhoseVariableWasDropped) {
  const at::Tensor eager = Leaf(0, {3}), ones = torch::ones({3}, torch::kDouble);
  {
    const at::Tensor y = Square({eager})[0];
    for (int i = 0; i < 2; ++i) y.backward(ones, /*retain_graph=*/true);
  }
  Compiled f = Compile(Square, {Leaf(0, {3})});
  WalkedAndCaptured([&] {
    const Variable a = ToVariable(Leaf(0, {3}));
    const autograd::Edge edge = *f({a})[0].GradientEdge();
    for (int i = 0; i < 2; ++i) {
      const absl::Status ran = autograd::BackwardOfEdges({edge}, {Ones(3)}, f.ops(), /*retain_graph=*/true);
      ASSERT_TRUE(ran.ok()) << ran;
    }
    ExpectNear(ToTorch(a.grad().tensor()), eager.grad());
    const auto refused = [&](const std::vector<autograd::Edge>& edges, const std::vector<Tensor>& gradients) {
      const absl::Status status = autograd::BackwardOfEdges(edges, gradients, f.ops());
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      return std::string(status.message());
    };
    EXPECT_THAT(refused({edge}, {}), HasSubstr("only for scalar outputs"));
    EXPECT_THAT(refused({edge}, {Ones(2)}), HasSubstr("expected shape compatible with f64[3]"));
    EXPECT_THAT(refused({edge}, {*Tensor::From<std::complex<double>>({{1, 0}, {1, 0}, {1, 0}}, {3})}),
                HasSubstr("both or neither must be complex"));
    EXPECT_THAT(refused({{}}, {Ones(3)}), HasSubstr("root 0 is an edge to no node"));
    EXPECT_THAT(refused({{edge.node, 1}}, {Ones(3)}), HasSubstr("root 0 is an edge to input 1"));
    ExpectNear(ToTorch(a.grad().tensor()), eager.grad());
  });
}

// AG-104: x is a copy; an edge of it; x *= 2.
TEST(GradCasesTest, AnEdgeLeadsToTheVersionAtWhichItWasTaken) {
  Compiled copy = Compile([](const Tensors& in) -> Tensors { return {in[0].clone()}; }, {Leaf(0, {2})});
  Compiled doubled = Compile(
      [](const Tensors& in) -> Tensors {
        in[0].mul_(2);
        return {};
      },
      {Leaf(0, {2}) * 1});
  Compiled total = Compile([](const Tensors& in) -> Tensors { return {in[0].sum()}; }, {Leaf(0, {2})});
  WalkedAndCaptured([&] {
    const Variable ours = copy({ToVariable(Leaf(0, {2}))})[0];
    const autograd::Edge edge = *ours.GradientEdge();
    doubled({ours});
    const autograd::Edge now = *ours.GradientEdge();
    EXPECT_NE(now.node, edge.node);
    const autograd::Edge root = *total({ours})[0].GradientEdge();
    const auto gradients = autograd::GradOfEdges({root}, {edge, now}, {}, total.ops());
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    EXPECT_THAT(*(*gradients)[0].ToVector<double>(), ElementsAre(2, 2));
    EXPECT_THAT(*(*gradients)[1].ToVector<double>(), ElementsAre(1, 1));
  });
}

std::string KindOf(absl::string_view name) { return absl::StrContains(name, "AccumulateGrad") ? "leaf" : "function"; }

// y = sin(x) * w; the hook is that of y.
std::vector<std::string> EagerOrder() {
  const c10::AutogradState state = c10::AutogradState::get_tls_state();
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
  std::vector<std::string> order;
  const at::Tensor y = Product({Leaf(0, {2}).sin(), Leaf(1, {2})})[0];
  y.register_hook([&](const at::Tensor&) {
    for (const torch::autograd::Node* node : torch::autograd::get_current_graph_task_execution_order()) {
      order.push_back(KindOf(node->name()));
    }
  });
  y.backward(torch::ones({2}, torch::kDouble));
  c10::AutogradState::set_tls_state(state);
  return order;
}

// missed-graph.
TEST(GradCasesTest, AHookKnowsTheNumberOfItsBackwardAndTheOrderOfTheNodes) {
  Compiled sine = Compile([](const Tensors& in) -> Tensors { return {in[0].sin()}; }, {Leaf(0, {2})});
  Compiled product = Compile(Product, {Leaf(0, {2}), Leaf(1, {2})});
  const std::vector<std::string> eager = EagerOrder();
  EXPECT_THAT(eager, ElementsAre("function", "leaf", "function", "leaf"));
  WalkedAndCaptured([&] {
    Variable h = sine({ToVariable(Leaf(0, {2}))})[0];
    Variable y = product({h, ToVariable(Leaf(1, {2}))})[0];
    std::vector<uint64_t> ids;
    std::vector<std::vector<std::string>> orders;
    const auto hook = [&](const Tensor&) -> absl::StatusOr<Tensor> {
      ids.push_back(*autograd::BackwardId());
      orders.emplace_back();
      const std::vector<std::shared_ptr<autograd::Node>> order = *autograd::ExecutionOrder();
      for (const std::shared_ptr<autograd::Node>& node : order) orders.back().push_back(KindOf(node->name()));
      return Tensor();
    };
    ASSERT_TRUE(h.AddHook(hook).ok());
    ASSERT_TRUE(y.AddHook(hook).ok());
    ASSERT_TRUE(autograd::Backward({y}, {Ones(2)}, sine.ops(), {.retain_graph = true}).ok());
    ASSERT_EQ(orders.size(), 2u);
    EXPECT_EQ(orders[0], eager);
    EXPECT_EQ(orders[1], eager);
    ASSERT_TRUE(autograd::Grad({y}, {h}, {Ones(2)}, sine.ops()).ok());
    ASSERT_EQ(orders.size(), 4u);
    EXPECT_THAT(orders[3], ElementsAre("function", "function"));
    EXPECT_EQ(ids[0], ids[1]);
    EXPECT_EQ(ids[2], ids[3]);
    EXPECT_NE(ids[0], ids[2]);
  });
  EXPECT_EQ(autograd::BackwardId().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(autograd::ExecutionOrder().status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace cotan::testing
