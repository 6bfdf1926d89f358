// SPDX-License-Identifier: Apache-2.0

// Views of results of compiled functions, written in place, beside LibTorch eager; each backward is walked and
// captured. The rows C8 of cases.txt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/autograd/double_backward.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/saved_variable.h"
#include "runtime/autograd/tensor_ops.h"
#include "testing/autograd/walked_and_captured.h"
#include "testing/higher_order/compiled.h"

namespace cotan::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Compiled Compile(const aot::TensorFunction& function, const Tensors& examples) {
  auto compiled = Compiled::Function(function, examples, /*order=*/1);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *std::move(compiled);
}

Tensor Scalar(double value) { return ToCotan(torch::tensor(value, torch::kDouble)); }
Tensor OnesOf(const Variable& variable) {
  return ToCotan(torch::ones(std::vector<int64_t>(variable.sizes().begin(), variable.sizes().end()), torch::kDouble));
}

void ExpectGrad(const Variable& variable, const at::Tensor& expected) {
  ASSERT_EQ(variable.grad().defined(), expected.defined());
  if (expected.defined()) ExpectNear(ToTorch(variable.grad().tensor()), expected);
}

TEST(ViewCasesTest, AHistoryThatIsRegeneratedWithoutGradientsIsThatOfTheWrite) {
  const aot::TensorFunction twice = [](const Tensors& in) -> Tensors { return {in[0] * 2}; };
  const aot::TensorFunction sum = [](const Tensors& in) -> Tensors { return {in[0].sum()}; };
  const at::Tensor a = Leaf(0, {2, 2});
  at::Tensor c = twice({a})[0].view({2, 2});
  c.select(0, 0).select(0, 0).fill_(3);
  {
    const torch::NoGradGuard no_grad;
    ASSERT_NE(c.grad_fn(), nullptr);
  }
  sum({c})[0].backward();
  ExpectNear(a.grad(), torch::tensor({0, 2, 2, 2}, torch::kDouble).view({2, 2}));

  Compiled f = Compile(twice, {Leaf(0, {2, 2})}), g = Compile(sum, {Leaf(0, {2, 2})});
  WalkedAndCaptured([&] {
    const Variable ours = ToVariable(Leaf(0, {2, 2}));
    const Variable view = *f({ours})[0].View({view::View{.sizes = {2, 2}}});
    Variable element = *view.View({view::Select{.dim = 0, .index = 0}, view::Select{.dim = 0, .index = 0}});
    ASSERT_TRUE(element.CopyInPlace(Variable(Scalar(3)), f.ops()).ok());
    {
      const GradModeGuard no_grad(false);
      ASSERT_TRUE(view.grad_fn().ok());
      ASSERT_NE(*view.grad_fn(), nullptr);
    }
    const absl::Status ran = autograd::Backward(g({view}), {}, f.ops());
    ASSERT_TRUE(ran.ok()) << ran;
    ExpectGrad(ours, a.grad());
  });
}

// Expects the gradients of eager for tangents of 1; functions of one result.
void ExpectEagerGradients(const aot::TensorFunction& function, const Tensors& given) {
  const Tensors inputs = Copies(given);
  const at::Tensor expected = function(inputs)[0];
  expected.backward(torch::ones_like(expected));
  Compiled f = Compile(function, Copies(given));
  WalkedAndCaptured([&] {
    const Variables ours = ToVariables(given);
    const Variables results = f(ours);
    ExpectNear(ToTorch(results[0].tensor()), expected.detach());
    const absl::Status ran = autograd::Backward(results, {OnesOf(results[0])}, f.ops());
    ASSERT_TRUE(ran.ok()) << ran;
    for (size_t i = 0; i < ours.size(); ++i) ExpectGrad(ours[i], inputs[i].grad());
  });
}

using Indices = std::vector<at::indexing::TensorIndex>;

TEST(ViewCasesTest, WritesAtIndicesGiveZerosThereAndTheGradientToTheSource) {
  const auto rest = at::indexing::Slice();
  const at::Tensor list = torch::tensor({0, 2}), mask = torch::tensor({true, false, true});
  const std::vector<Indices> all = {{1},          {list},          {1, list},
                                    {list, list}, {mask},          {rest, mask},
                                    {mask, 1},    {list, rest, 1}, {at::indexing::Slice(1, 3), list}};
  for (size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(i);
    const Indices& index = all[i];
    const at::Tensor x = Leaf(0, {3, 3, 3});
    const auto number = [&index](const Tensors& in) -> Tensors {
      at::Tensor y = in[0] + 2;
      y.index_put_(index, 2);
      return {y};
    };
    ExpectEagerGradients(number, {x});
    const auto tensor = [&index](const Tensors& in) -> Tensors {
      at::Tensor y = in[0] + 2;
      y.index_put_(index, in[1]);
      return {y};
    };
    // The size of the source's gradient is not known when the function is compiled.
    const bool has_mask = i >= 4 && i < 7;
    if (!has_mask) ExpectEagerGradients(tensor, {x, Leaf(1, x.index(index).sizes())});
  }
}

TEST(ViewCasesTest, ABroadcastSourceGetsTheSumOfItsColumns) {
  const auto function = [](const Tensors& in) -> Tensors {
    const at::Tensor y = torch::zeros({2, 3, 4}, torch::kDouble);
    y.select(0, 1).copy_(in[0]);
    return {y * in[1]};
  };
  ExpectEagerGradients(function, {Leaf(0, {4}), Constant(1, {2, 3, 4})});
  const at::Tensor x = Leaf(0, {4}), weight = Constant(1, {2, 3, 4});
  function({x, weight})[0].sum().backward();
  ExpectNear(x.grad(), weight[1].sum(0));
}

TEST(ViewCasesTest, OneElementThatIsCopiedTwiceGetsBothGradientsInEachRetainedBackward) {
  const auto function = [](const Tensors& in) -> Tensors {
    at::Tensor c = torch::zeros({3}, torch::kDouble);
    c.index_put_({in[1]}, in[0].index({in[2]}));
    return {c};
  };
  const Tensors given = {Leaf(0, {3}), torch::tensor({1, 2}), torch::tensor({1, 1})};
  const Tensors inputs = Copies(given);
  const at::Tensor c = function(inputs)[0];
  c.backward(torch::ones({3}, torch::kDouble), /*keep_graph=*/true);
  ExpectNear(inputs[0].grad(), torch::tensor({0, 2, 0}, torch::kDouble));
  c.backward(torch::ones({3}, torch::kDouble));
  ExpectNear(inputs[0].grad(), torch::tensor({0, 4, 0}, torch::kDouble));
  EXPECT_ANY_THROW(c.backward(torch::ones({3}, torch::kDouble)));

  Compiled f = Compile(function, given);
  WalkedAndCaptured([&] {
    const Variables ours = ToVariables(given);
    const Variables results = f(ours);
    const std::vector<Tensor> ones = {OnesOf(results[0])};
    ASSERT_TRUE(autograd::Backward(results, ones, f.ops(), {.retain_graph = true}).ok());
    EXPECT_THAT(*ours[0].grad().tensor().ToVector<double>(), ElementsAre(0, 2, 0));
    ASSERT_TRUE(autograd::Backward(results, ones, f.ops()).ok());
    EXPECT_THAT(*ours[0].grad().tensor().ToVector<double>(), ElementsAre(0, 4, 0));
    const absl::Status again = autograd::Backward(results, ones, f.ops());
    EXPECT_EQ(again.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(again.message()), HasSubstr("retain"));
    EXPECT_THAT(*ours[0].grad().tensor().ToVector<double>(), ElementsAre(0, 4, 0));
  });
}

// v = factor v + share source, in place, as a node of the host program.
struct EagerWrite : torch::autograd::Function<EagerWrite> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::Tensor v, const at::Tensor& source,
                            int64_t factor, int64_t share) {
    context->saved_data["factor"] = factor;
    context->saved_data["share"] = share;
    context->mark_dirty({v});
    v.mul_(factor).add_(source, share);
    return v;
  }
  static Tensors backward(torch::autograd::AutogradContext* context, const Tensors& incoming) {
    const int64_t factor = context->saved_data["factor"].toInt(), share = context->saved_data["share"].toInt();
    return {factor * incoming[0], share == 0 ? at::Tensor() : share * incoming[0], at::Tensor(), at::Tensor()};
  }
};

// The gradients of EagerWrite; factor is 1 or 2, share 0 or 1.
class WriteNode final : public autograd::Node {
 public:
  WriteNode(int factor, int share) : factor_(factor), share_(share) {}
  absl::string_view name() const override { return "WriteBackward"; }
  absl::StatusOr<autograd::Gradients> Apply(autograd::BackwardContext& context, absl::Span<Tensor> incoming) override {
    autograd::Gradients gradients(2);
    gradients[0] = factor_ == 1 ? incoming[0] : *context.ops().Add(incoming[0], incoming[0]);
    if (share_ == 1) gradients[1] = incoming[0];
    return gradients;
  }
  absl::Status ApplyRecorded(autograd::BackwardContext& context, absl::Span<Variable> incoming,
                             std::vector<Variable>& results) override {
    if (factor_ != 1 || share_ != 1) return NotDifferentiableError();
    results[0] = results[1] = incoming[0];
    return absl::OkStatus();
  }

 private:
  const int factor_, share_;
};

void Write(Variable v, const Variable& source, int factor, int share, TensorOps& ops) {
  ASSERT_TRUE(v.CheckInPlace(/*requires_grad=*/true).ok());
  const auto node = std::make_shared<WriteNode>(factor, share);
  ASSERT_TRUE(node->AddEdgesTo({v, source}).ok());
  const at::Tensor written = factor * ToTorch(v.tensor()) + share * ToTorch(source.tensor());
  ASSERT_TRUE(ops.Copy(ToCotan(written), v.tensor()).ok());
  v.BumpVersion();
  ASSERT_TRUE(v.RebaseHistory(node).ok());
}

Tensors Clone(const Tensors& in) { return {in[0].clone()}; }
Tensors Sum(const Tensors& in) { return {in[0].sum()}; }

TEST(ViewCasesTest, AHookOfTheHistoryBeforeAWriteDoesNotRunForWhatNeedsTheNewOne) {
  const aot::TensorFunction twice = [](const Tensors& in) -> Tensors { return {in[0] * 2}; };
  const aot::TensorFunction add = [](const Tensors& in) -> Tensors { return {in[0] + in[1]}; };
  const at::Tensor x = Leaf(0, {4}), y = Leaf(1, {4});
  int calls = 0;
  at::Tensor out = Clone({x})[0].view({4});
  out.register_hook([&calls](const at::Tensor&) { ++calls; });
  const at::Tensor e = twice({y})[0], b = add({out, e})[0];
  out = EagerWrite::apply(out, e, 1, 1);
  const at::Tensor ones = torch::ones({4}, torch::kDouble);
  const Tensors expected = torch::autograd::grad({add({out, b})[0]}, {b, e}, {ones});
  EXPECT_EQ(calls, 0);
  ExpectNear(expected[1], 2 * ones);

  Compiled clone = Compile(Clone, {Leaf(0, {4})}), doubled = Compile(twice, {Leaf(0, {4})});
  Compiled sum = Compile(add, {Leaf(0, {4}), Leaf(1, {4})});
  WalkedAndCaptured([&] {
    Variable view = *clone({ToVariable(x)})[0].View({view::View{.sizes = {4}}});
    const auto hook = [&calls](const Tensor& gradient) -> absl::StatusOr<Tensor> {
      ++calls;
      return gradient;
    };
    ASSERT_TRUE(view.AddHook(hook).ok());
    const Variable source = doubled({ToVariable(y)})[0], before = sum({view, source})[0];
    Write(view, source, 1, 1, sum.ops());
    const Variables root = sum({view, before});
    ExpectNear(ToTorch(root[0].tensor()), (out + b).detach());
    const auto gradients = autograd::Grad(root, {before, source}, {ToCotan(ones)}, sum.ops());
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    for (size_t i = 0; i < expected.size(); ++i) ExpectNear(ToTorch((*gradients)[i]), expected[i]);
    EXPECT_EQ(calls, 0);
  });
}

TEST(ViewCasesTest, ANodeThatWritesAViewPassesItsGradientThroughTheBase) {
  const at::Tensor a = Leaf(0, {4}), b = Leaf(1, {4});
  const at::Tensor c = Clone({a})[0];
  EagerWrite::apply(c.slice(0), b, 2, 0);
  Sum({c})[0].backward();
  ExpectNear(a.grad(), torch::full({4}, 2, torch::kDouble));
  EXPECT_FALSE(b.grad().defined());

  Compiled clone = Compile(Clone, {Leaf(0, {4})}), sum = Compile(Sum, {Leaf(0, {4})});
  WalkedAndCaptured([&] {
    const Variable ours = ToVariable(Leaf(0, {4})), other = ToVariable(Leaf(1, {4}));
    const Variable base = clone({ours})[0];
    Write(*base.View({view::Slice{.dim = 0, .start = 0, .end = 4}}), other, 2, 0, sum.ops());
    ASSERT_TRUE(autograd::Backward(sum({base}), {}, sum.ops()).ok());
    ExpectGrad(ours, a.grad());
    EXPECT_FALSE(other.grad().defined());
  });
}

// The blocks [1:3, 2:4] and [1:3, 0:2] of a matrix.
Variable BlockOf(const Variable& x, int64_t column) {
  return *x.View(
      {view::Slice{.dim = 1, .start = column, .end = column + 2}, view::Slice{.dim = 0, .start = 1, .end = 3}});
}
at::Tensor BlockOf(const at::Tensor& x, int64_t column) { return x.narrow(1, column, 2).narrow(0, 1, 2); }

TEST(ViewCasesTest, NodesThatWriteViewsOfViewsHaveBothOrders) {
  const aot::TensorFunction cube = [](const Tensors& in) -> Tensors { return {in[0] * in[0] * in[0]}; };
  const at::Tensor a = Leaf(0, {4, 4}), b = Leaf(1, {2, 2}), t = Constant(2, {4, 4});
  const at::Tensor x = Clone({a})[0];
  for (const int64_t column : {2, 0}) EagerWrite::apply(BlockOf(x, column), b, 1, 1);
  const Tensors linear = torch::autograd::grad({x}, {a, b}, {t}, /*retain_graph=*/true);
  ExpectNear(linear[0], t);
  ExpectNear(linear[1], BlockOf(t, 2) + BlockOf(t, 0));

  const Tensors first = torch::autograd::grad(cube({x}), {a, b}, {t}, /*retain_graph=*/true, /*create_graph=*/true);
  const Tensors second = torch::autograd::grad({first[0].sum()}, {a, b});
  Compiled clone = *Compiled::Function(Clone, {Leaf(0, {4, 4})}, /*order=*/2);
  Compiled f = *Compiled::Function(cube, {Leaf(0, {4, 4})}, /*order=*/2);
  WalkedAndCaptured([&] {
    const Variable ours = ToVariable(Leaf(0, {4, 4})), source = ToVariable(Leaf(1, {2, 2}));
    const Variable base = clone({ours})[0];
    for (const int64_t column : {2, 0}) Write(BlockOf(base, column), source, 1, 1, f.ops());
    ExpectNear(ToTorch(base.tensor()), x.detach());
    const std::vector<Tensor> tangent = {ToCotan(t)};
    ASSERT_TRUE(autograd::Backward({base}, tangent, f.ops(), {.retain_graph = true}).ok());
    ExpectGrad(ours, linear[0]);
    ExpectGrad(source, linear[1]);
    const auto once = autograd::GradWithGraph(f({base}), {ours, source}, {Variable(tangent[0])}, f.ops(), false);
    ASSERT_TRUE(once.ok()) << once.status();
    for (size_t i = 0; i < 2; ++i) ExpectNear(ToTorch((*once)[i].tensor()), first[i].detach());
    const std::vector<Tensor> weights = {ToCotan(torch::ones({4, 4})), ToCotan(torch::zeros({2, 2}))};
    const auto twice = autograd::Grad(*once, {ours, source}, weights, f.ops());
    ASSERT_TRUE(twice.ok()) << twice.status();
    for (size_t i = 0; i < 2; ++i) ExpectNear(ToTorch((*twice)[i]), second[i]);
  });
}

// Saves the result that it writes.
class ReluNode final : public autograd::Node {
 public:
  absl::string_view name() const override { return "ReluBackward"; }
  void Save(const Variable& result) { result_ = autograd::SavedVariable(result); }
  absl::StatusOr<autograd::Gradients> Apply(autograd::BackwardContext&, absl::Span<Tensor> incoming) override {
    const absl::StatusOr<Tensor> result = result_.Unpack(*this);
    if (!result.ok()) return result.status();
    return autograd::Gradients{ToCotan(ToTorch(incoming[0]) * (ToTorch(*result) > 0))};
  }
  void ReleaseSaved() override { result_.Release(); }

 private:
  autograd::SavedVariable result_;
};

TEST(ViewCasesTest, ANodeThatSavesTheViewThatItWritesIsFreedWithTheView) {
  const at::Tensor a = torch::arange(10, torch::kDouble).set_requires_grad(true);
  at::Tensor view = Clone({a.slice(0, 0, 2)})[0].view({2});
  view.relu_();
  Sum(Clone({view}))[0].backward();
  EXPECT_EQ(a.grad().sum().item<double>(), 1);

  const aot::TensorFunction part = [](const Tensors& in) -> Tensors { return {in[0].slice(0, 0, 2).clone()}; };
  Compiled clone = Compile(Clone, {Leaf(0, {2})}), first = Compile(part, {a});
  Compiled sum = Compile(Sum, {Leaf(0, {2})});
  const auto relu = [&](const Variable& x, std::weak_ptr<autograd::Node>& weak) {
    Variable b = *first({x})[0].View({view::View{.sizes = {2}}});
    EXPECT_TRUE(b.CheckInPlace(true).ok());
    const auto node = std::make_shared<ReluNode>();
    EXPECT_TRUE(node->AddEdgesTo({b}).ok());
    EXPECT_TRUE(sum.ops().Copy(ToCotan(ToTorch(b.tensor()).relu()), b.tensor()).ok());
    b.BumpVersion();
    node->Save(b);
    EXPECT_TRUE(b.RebaseHistory(node).ok());
    weak = node;
    return b;
  };
  WalkedAndCaptured([&] {
    std::weak_ptr<autograd::Node> node;
    const Variable ours = ToVariable(a);
    Variables c = clone({relu(ours, node)});
    EXPECT_FALSE(node.expired());
    const absl::Status ran = autograd::Backward(sum(c), {}, sum.ops());
    ASSERT_TRUE(ran.ok()) << ran;
    ExpectGrad(ours, a.grad());
    c.clear();
    EXPECT_TRUE(node.expired());
    c = clone({relu(ours, node)});
    EXPECT_FALSE(node.expired());
    c.clear();
    EXPECT_TRUE(node.expired());
  });
}

TEST(ViewCasesTest, BackwardsOfSingleViewsOfOneOperationGrowTheGradientEntryByEntry) {
  const at::Tensor x = Leaf(0, {5});
  const Tensors eager = Clone({x})[0].unbind();
  std::vector<double> seen_by_eager;  // 0: undefined
  eager[0].register_hook([&seen_by_eager](const at::Tensor& gradient) {
    seen_by_eager.push_back(gradient.defined() ? gradient.item<double>() : 0);
  });
  Compiled clone = Compile(Clone, {Leaf(0, {5})}), end = Compile(Clone, {Leaf(0, {})});
  WalkedAndCaptured([&] {
    x.mutable_grad().reset();
    seen_by_eager.clear();
    const Variable ours = ToVariable(Leaf(0, {5}));
    std::vector<ViewStep> steps;
    for (int64_t i = 0; i < 5; ++i) steps.push_back(view::Select{.dim = 0, .index = i});
    Variables parts = *clone({ours})[0].MultiView(steps);
    std::vector<double> seen;
    const auto hook = [&seen](const Tensor& gradient) -> absl::StatusOr<Tensor> {
      seen.push_back(gradient.defined() ? ToTorch(gradient).item<double>() : 0);
      return gradient;
    };
    ASSERT_TRUE(parts[0].AddHook(hook).ok());
    for (size_t i = 0; i < 5; ++i) {
      eager[i].backward({}, /*retain_graph=*/true);
      const absl::Status ran = autograd::Backward(end({parts[i]}), {}, end.ops(), {.retain_graph = true});
      ASSERT_TRUE(ran.ok()) << ran;
      ExpectGrad(ours, x.grad());
      EXPECT_EQ(x.grad().sum().item<double>(), static_cast<double>(i + 1));
    }
    EXPECT_THAT(seen, ElementsAre(1, 0, 0, 0, 0));
    EXPECT_EQ(seen, seen_by_eager);
  });
}

TEST(ViewCasesTest, GradientsOfPartsDoNotReachTheHookOfTheWhole) {
  const aot::TensorFunction combine = [](const Tensors& in) -> Tensors { return {in[0] + 2 * in[1]}; };
  const at::Tensor x = Leaf(0, {4}), t = Constant(1, {2});
  int calls = 0;
  x.register_hook([&calls](const at::Tensor&) { ++calls; });
  const Tensors eager = x.chunk(2);
  const Tensors expected = torch::autograd::grad(combine(eager), eager, {t});
  ExpectNear(expected[1], 2 * t);

  Compiled f = Compile(combine, {Leaf(0, {2}), Leaf(1, {2})});
  WalkedAndCaptured([&] {
    Variable ours = ToVariable(x);
    const auto hook = [&calls](const Tensor& gradient) -> absl::StatusOr<Tensor> {
      ++calls;
      return gradient;
    };
    ASSERT_TRUE(ours.AddHook(hook).ok());
    const Variables parts =
        *ours.MultiView({view::Slice{.dim = 0, .start = 0, .end = 2}, view::Slice{.dim = 0, .start = 2, .end = 4}});
    const auto gradients = autograd::Grad(f(parts), parts, {ToCotan(t)}, f.ops());
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    for (size_t i = 0; i < 2; ++i) ExpectNear(ToTorch((*gradients)[i]), expected[i]);
    EXPECT_EQ(calls, 0);
    EXPECT_FALSE(ours.grad().defined());
  });
}

}  // namespace
}  // namespace cotan::testing
