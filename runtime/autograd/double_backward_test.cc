// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/double_backward.h"

#include "runtime/autograd/test_support.h"

namespace cotan::autograd {
namespace {

using ::testing::ElementsAre;

Tensor Product(const Tensor& a, const Tensor& b) {
  std::vector<float> values = ToVector(a);
  const std::vector<float> factors = ToVector(b);
  for (size_t i = 0; i < values.size(); ++i) values[i] *= factors[i];
  return *Tensor::From<float>(values, a.sizes());
}

// Returns a * b with a node that can be differentiated any number of times.
Variable Times(const Variable& a, const Variable& b) {
  const Tensor left = a.tensor(), right = b.tensor();
  const auto plain = [left, right](BackwardContext&, absl::Span<Tensor> incoming) -> absl::StatusOr<Gradients> {
    if (!incoming[0].defined()) return Gradients(2);
    return Gradients{Product(incoming[0], right), Product(incoming[0], left)};
  };
  const auto recorded = [a, b](BackwardContext&,
                               absl::Span<const Variable> incoming) -> absl::StatusOr<std::vector<Variable>> {
    if (!incoming[0].defined()) return std::vector<Variable>(2);
    return std::vector<Variable>{Times(incoming[0], b), Times(incoming[0], a)};
  };
  return (*ApplyFunction("Times", {a, b}, {Product(left, right)}, plain, recorded))[0];
}

Variable LeafOf(const Tensor& tensor) { return *Variable::Leaf(tensor); }
Variable OnesLike(const Variable& variable) { return Variable(*Ops().Ones(variable.dtype(), variable.sizes())); }

// Returns the gradients of <weights, gradient of sum view(x)^2> with respect to x: 2 V^T V weights.
std::vector<float> SecondOrderOfSquaredView(const Variable& x, const Variable& view, const Tensor& weights) {
  const Variable square = Times(view, view);
  const auto first = GradWithGraph({square}, {x}, {OnesLike(square)}, Ops());
  EXPECT_TRUE(first.ok()) << first.status();
  const auto second = Grad({(*first)[0]}, {x}, {weights}, Ops());
  EXPECT_TRUE(second.ok()) << second.status();
  return ToVector((*second)[0]);
}

TEST(DoubleBackwardTest, AProductHasAllOrders) {
  const Variable x = LeafOf(Vector({2}));
  Variable y = Times(Times(x, x), x);
  std::vector<float> orders;
  for (int i = 0; i < 3; ++i) {
    y = (*GradWithGraph({y}, {x}, {}, Ops()))[0];
    orders.push_back(ToVector(y)[0]);
  }
  EXPECT_THAT(orders, ElementsAre(12, 12, 6));
}

TEST(DoubleBackwardTest, ViewsAreDifferentiatedTwice) {
  const Variable x = LeafOf(Count({2, 3}));
  const Tensor weights = Values({1, 2, 3, 4, 5, 6}, {2, 3});
  const auto second = [&](const ViewStep& step) { return SecondOrderOfSquaredView(x, *x.View({step}), weights); };
  const auto all = ElementsAre(2, 4, 6, 8, 10, 12);
  EXPECT_THAT(second(view::View{.sizes = {6}}), all);
  EXPECT_THAT(second(view::Permute{.dims = {1, 0}}), all);
  EXPECT_THAT(second(view::Unsqueeze{.dim = 0}), all);
  EXPECT_THAT(second(view::Expand{.sizes = {2, 2, 3}}), ElementsAre(4, 8, 12, 16, 20, 24));
  EXPECT_THAT(second(view::Select{.dim = 0, .index = 1}), ElementsAre(0, 0, 0, 8, 10, 12));
  EXPECT_THAT(second(view::Slice{.dim = 1, .start = 0, .end = 3, .step = 2}), ElementsAre(2, 0, 6, 8, 0, 12));
  EXPECT_THAT(second(view::AsStrided{.sizes = {2, 2}, .strides = {1, 1}, .offset = 1}),
              ElementsAre(0, 4, 12, 8, 0, 0));  // elements 1, 2, 2, 3
}

TEST(DoubleBackwardTest, ViewsOfOneOperationAreDifferentiatedTwice) {
  const Variable x = LeafOf(Count({2, 2}));
  const auto rows = *x.MultiView({view::Select{.dim = 0, .index = 0}, view::Select{.dim = 0, .index = 1}});
  const Variable product = Times(rows[0], rows[1]);
  const Variable first = (*GradWithGraph({product}, {x}, {OnesLike(product)}, Ops()))[0];
  EXPECT_THAT(ToVector(first), ElementsAre(2, 3, 0, 1));
  EXPECT_THAT(ToVector((*Grad({first}, {x}, {Values({1, 2, 3, 4}, {2, 2})}, Ops()))[0]), ElementsAre(3, 4, 1, 2));
}

TEST(DoubleBackwardTest, WritesToPartsAreDifferentiatedTwice) {
  const Variable x = LeafOf(Vector({1, 2, 3})), source = LeafOf(Vector({5}));
  Variable y = Times(x, x);
  Variable part = *y.View({view::Slice{.dim = 0, .start = 1, .end = 2, .step = 1}});
  ASSERT_TRUE(part.CopyInPlace(Times(source, source), Ops()).ok());
  const Variable z = Times(y, y);  // x^4 and source^4
  const auto first = *GradWithGraph({z}, {x, source}, {OnesLike(z)}, Ops());
  EXPECT_THAT(ToVector(first[0]), ElementsAre(4, 0, 108));
  EXPECT_THAT(ToVector(first[1]), ElementsAre(500));
  const auto second = *Grad(first, {x, source}, {Vector({1, 1, 1}), Vector({1})}, Ops());
  EXPECT_THAT(ToVector(second[0]), ElementsAre(12, 0, 108));
  EXPECT_THAT(ToVector(second[1]), ElementsAre(300));
}

TEST(DoubleBackwardTest, GradIsReplacedAndHasHistory) {
  Variable x = LeafOf(Vector({3}));
  const Variable old(Vector({1}));
  ASSERT_TRUE(x.SetGrad(old).ok());
  ASSERT_TRUE(BackwardWithGraph({Times(x, x)}, {}, Ops()).ok());
  EXPECT_THAT(ToVector(x.grad()), ElementsAre(7));
  EXPECT_THAT(ToVector(old), ElementsAre(1));
  EXPECT_THAT(ToVector((*Grad({x.grad()}, {x}, {}, Ops()))[0]), ElementsAre(2));
  x.ClearGrad();
}

TEST(DoubleBackwardTest, GradientsOfSeveralPathsAreSummedWithHistory) {
  const Variable x = LeafOf(Vector({2}));
  const Variable y = Times(x, x);
  const Variable first = (*GradWithGraph({y, Times(y, x)}, {x}, {}, Ops()))[0];
  EXPECT_THAT(ToVector(first), ElementsAre(4 + 12));
  EXPECT_THAT(ToVector((*Grad({first}, {x}, {}, Ops()))[0]), ElementsAre(2 + 12));
}

TEST(DoubleBackwardTest, RetainHooksGetGradientsWithHistory) {
  const Variable x = LeafOf(Vector({2}));
  Variable y = Times(x, x);
  ASSERT_TRUE(y.RetainGrad().ok());
  ASSERT_TRUE(GradWithGraph({Times(y, y)}, {x}, {}, Ops()).ok());
  EXPECT_THAT(ToVector(y.grad()), ElementsAre(8));
  EXPECT_THAT(ToVector((*Grad({y.grad()}, {x}, {}, Ops()))[0]), ElementsAre(8));
}

TEST(DoubleBackwardTest, HooksMayNotReplaceGradients) {
  const Variable x = LeafOf(Vector({2}));
  Variable y = Times(x, x);
  int runs = 0;
  const HookId id = *y.AddHook([&](const Tensor&) -> absl::StatusOr<Tensor> {
    ++runs;
    return Tensor();
  });
  EXPECT_TRUE(GradWithGraph({y}, {x}, {}, Ops()).ok());
  EXPECT_EQ(runs, 1);
  y.RemoveHook(id);
  ASSERT_TRUE(y.AddHook([](const Tensor&) -> absl::StatusOr<Tensor> { return Vector({9}); }).ok());
  EXPECT_THAT(GradWithGraph({y}, {x}, {}, Ops()).status(),
              Fails(absl::StatusCode::kUnimplemented, "a hook of Times replaced a gradient"));
}

TEST(DoubleBackwardTest, NodesWithoutARecordedBackwardAreNamed) {
  const Variable x = LeafOf(Vector({1}));
  EXPECT_THAT(GradWithGraph({Scale(x, 2, "Doubling")}, {x}, {}, Ops()).status(),
              Fails(absl::StatusCode::kUnimplemented, "the gradients of Doubling cannot be differentiated again"));
}

TEST(DoubleBackwardTest, NodesThatLeadToNoInputDoNotRun) {
  const Variable x = LeafOf(Vector({3})), y = LeafOf(Vector({4}));
  const Variable z = Times(Times(x, x), Scale(y, 2, "NotRecorded"));
  EXPECT_THAT(ToVector((*GradWithGraph({z}, {x}, {}, Ops()))[0]), ElementsAre(48));
}

TEST(DoubleBackwardTest, RootsAreChecked) {
  const Variable x = LeafOf(Vector({1, 2}));
  EXPECT_THAT(GradWithGraph({Times(x, x)}, {x}, {}, Ops()).status(),
              Fails(absl::StatusCode::kInvalidArgument, "only for real scalar outputs"));
  EXPECT_THAT(GradWithGraph({Times(x, x)}, {x}, {Variable(Vector({1, 2, 3}))}, Ops()).status(),
              Fails(absl::StatusCode::kInvalidArgument, "root 0: invalid gradient"));
  EXPECT_THAT(BackwardWithGraph({Variable(Vector({1}))}, {}, Ops()),
              Fails(absl::StatusCode::kFailedPrecondition, "root 0 does not require grad"));
}

TEST(DoubleBackwardTest, ALeafThatTakesAnyGradientAddsThoseOfOneBackwardInOneDType) {
  Variable x = LeafOf(Vector({1}));
  ASSERT_TRUE(x.SetGradDType(DType::kUndefined).ok());
  const auto plain = [](BackwardContext&, absl::Span<Tensor>) -> absl::StatusOr<Gradients> { return Gradients(1); };
  const auto recorded = [](BackwardContext&,
                           absl::Span<const Variable> incoming) -> absl::StatusOr<std::vector<Variable>> {
    return std::vector<Variable>{incoming[0]};
  };
  const Variable in_float = (*ApplyFunction("Float", {x}, {Vector({1})}, plain, recorded))[0];
  const Variable in_double = (*ApplyFunction("Double", {x}, {*Tensor::From<double>({1}, {1})}, plain, recorded))[0];
  EXPECT_THAT(BackwardWithGraph({in_float, in_double}, {}, Ops()),
              Fails(absl::StatusCode::kInvalidArgument, "of one leaf, which keeps their dtype, cannot be added"));
  EXPECT_FALSE(x.grad().defined());
  // Those of a later backward are cast to the dtype of grad().
  ASSERT_TRUE(BackwardWithGraph({in_double}, {}, Ops()).ok());
  ASSERT_TRUE(BackwardWithGraph({in_float}, {}, Ops()).ok());
  EXPECT_THAT(*x.grad().tensor().ToVector<double>(), ElementsAre(2));
}

}  // namespace
}  // namespace cotan::autograd
