// SPDX-License-Identifier: Apache-2.0

// What nodes of the host program return, and do not, beside compiled functions. The rows AG-061 to AG-067 of cases.txt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <utility>
#include <vector>

#include "runtime/autograd/engine.h"
#include "runtime/autograd/function_node.h"
#include "runtime/autograd/saved_variable.h"
#include "testing/autograd/walked_and_captured.h"
#include "testing/higher_order/compiled.h"

namespace cotan::testing {
namespace {

using ::testing::HasSubstr;

// Compiled functions before and after the nodes of a test.
class ReturnsTest : public ::testing::Test {
 protected:
  ReturnsTest()
      : twice_(*Compiled::Function([](const Tensors& in) -> Tensors { return {in[0] * 2}; }, {Leaf(0, {2})}, 1)) {}

  // Returns a node that passes on the results of `backward`.
  Variables Node(const Variables& inputs, const std::vector<Tensor>& outputs, autograd::BackwardFunction backward) {
    auto results = autograd::ApplyFunction("N", inputs, outputs, std::move(backward));
    EXPECT_TRUE(results.ok()) << results.status();
    return *std::move(results);
  }
  absl::Status Backward(const Variable& root) {
    return autograd::Backward({root}, {ToCotan(torch::ones({2}))}, twice_.ops());
  }

  Compiled twice_;
  const Variable x_ = ToVariable(Leaf(0, {2}));
};

TEST_F(ReturnsTest, AResultWithoutGradientGivesAnUndefinedTangent) {
  int tangents = 0;
  const Variables out =
      Node({twice_({x_})[0]}, {x_.tensor(), x_.tensor()},
           [&](autograd::BackwardContext&, absl::Span<Tensor> g) -> absl::StatusOr<autograd::Gradients> {
             for (const Tensor& tangent : g) tangents += tangent.defined() ? 1 : 0;
             return autograd::Gradients{g[0]};
           });
  ASSERT_TRUE(Backward(twice_({out[0]})[0]).ok());
  EXPECT_EQ(tangents, 1);
  ExpectNear(ToTorch(x_.grad().tensor()), 4 * torch::ones({2}, torch::kDouble));
}

// Gives no gradient.
struct EagerNone : torch::autograd::Function<EagerNone> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x.clone(); }
  static Tensors backward(torch::autograd::AutogradContext*, const Tensors&) { return {at::Tensor()}; }
};

// Passes on the sum of its tangents; notes how many of them are defined.
struct EagerSum : torch::autograd::Function<EagerSum> {
  static Tensors forward(torch::autograd::AutogradContext* context, const at::Tensor& x, bool materializes,
                         int* defined) {
    context->set_materialize_grads(materializes);
    context->saved_data["defined"] = reinterpret_cast<int64_t>(defined);
    return {x.clone(), x.clone()};
  }
  static Tensors backward(torch::autograd::AutogradContext* context, const Tensors& tangents) {
    auto* const defined = reinterpret_cast<int*>(context->saved_data["defined"].toInt());
    at::Tensor sum;
    for (const at::Tensor& tangent : tangents) {
      if (!tangent.defined()) continue;
      ++*defined;
      sum = sum.defined() ? sum + tangent : tangent;
    }
    return {sum, at::Tensor(), at::Tensor()};
  }
};

// The node has a result whose user gives no gradient, and one without a user.
TEST_F(ReturnsTest, UndefinedTangentsAreZerosIfTheNodeAsksForThem) {
  for (const bool materializes : {false, true}) {
    int eager_defined = 0, defined = 0;
    const at::Tensor x = Leaf(0, {2});
    (EagerNone::apply(EagerSum::apply(2 * x, materializes, &eager_defined)[0]) * 2)
        .backward(torch::ones({2}, torch::kDouble));

    const auto sum = [&](autograd::BackwardContext&, absl::Span<Tensor> g) -> absl::StatusOr<autograd::Gradients> {
      at::Tensor total;
      for (const Tensor& tangent : g) {
        if (!tangent.defined()) continue;
        ++defined;
        total = total.defined() ? total + ToTorch(tangent) : ToTorch(tangent);
      }
      return autograd::Gradients{total.defined() ? ToCotan(total) : Tensor()};
    };
    const auto none = [](autograd::BackwardContext&, absl::Span<Tensor>) -> absl::StatusOr<autograd::Gradients> {
      return autograd::Gradients{Tensor()};
    };
    WalkedAndCaptured([&] {
      defined = 0;
      Variable(x_).ClearGrad();
      const auto parts = autograd::ApplyFunction("Sum", {twice_({x_})[0]}, {x_.tensor(), x_.tensor()}, sum, nullptr,
                                                 {.materialize_grads = materializes});
      ASSERT_TRUE(parts.ok()) << parts.status();
      const absl::Status ran = Backward(twice_({Node({(*parts)[0]}, {x_.tensor()}, none)[0]})[0]);
      ASSERT_TRUE(ran.ok()) << ran;
      EXPECT_EQ(defined, materializes ? 2 : 0);
      EXPECT_EQ(defined, eager_defined);
      ASSERT_EQ(x_.grad().defined(), x.grad().defined());
      if (materializes) ExpectNear(ToTorch(x_.grad().tensor()), x.grad());
    });
  }
}

// The results are 6x, a value without gradient, and 6y; the hook of the node doubles what is defined.
TEST_F(ReturnsTest, APreHookSeesNoGradientOfAResultThatIsNotUsed) {
  const Variable y = ToVariable(Leaf(7, {2}));
  int undefined = 0;
  const auto six = [](autograd::BackwardContext&, absl::Span<Tensor> g) -> absl::StatusOr<autograd::Gradients> {
    return autograd::Gradients{ToCotan(6 * ToTorch(g[0])), ToCotan(6 * ToTorch(g[2]))};
  };
  const Variables out = Node({twice_({x_})[0], y}, {x_.tensor(), x_.tensor(), y.tensor()}, six);
  const auto doubles = [&](absl::Span<Tensor> incoming) -> absl::Status {
    for (Tensor& gradient : incoming) {
      undefined += gradient.defined() ? 0 : 1;
      if (gradient.defined()) gradient = ToCotan(2 * ToTorch(gradient));
    }
    return absl::OkStatus();
  };
  out[0].GradientEdge()->node->MutableHooks().AddPreHook(doubles);
  ASSERT_TRUE(
      autograd::Backward({out[0], out[2]}, {ToCotan(torch::ones({2})), ToCotan(torch::ones({2}))}, twice_.ops()).ok());
  EXPECT_EQ(undefined, 1);
  ExpectNear(ToTorch(x_.grad().tensor()), 24 * torch::ones({2}, torch::kDouble));
  ExpectNear(ToTorch(y.grad().tensor()), 12 * torch::ones({2}, torch::kDouble));
}

TEST_F(ReturnsTest, NoGradientIsNotZero) {
  const auto none = [](autograd::BackwardContext&, absl::Span<Tensor>) -> absl::StatusOr<autograd::Gradients> {
    return autograd::Gradients{Tensor()};
  };
  for (const Variable& input : {x_, twice_({x_})[0]}) {
    const Variable out = Node({input}, {x_.tensor()}, none)[0];
    ASSERT_TRUE(Backward(out).ok());
    ASSERT_TRUE(Backward(twice_({Node({input}, {x_.tensor()}, none)[0]})[0]).ok());
    EXPECT_FALSE(x_.grad().defined());
  }
  const Variable out = Node({x_}, {x_.tensor()}, none)[0];
  const auto gradients = autograd::Grad({out}, {x_}, {ToCotan(torch::ones({2}))}, twice_.ops(), {.allow_unused = true});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  EXPECT_FALSE((*gradients)[0].defined());
}

TEST_F(ReturnsTest, AGradientOfAnotherShapeIsRefusedByNodePlaceAndShapes) {
  const Variable out = Node({twice_({x_})[0]}, {x_.tensor()},
                            [](autograd::BackwardContext&, absl::Span<Tensor>) -> absl::StatusOr<autograd::Gradients> {
                              return autograd::Gradients{ToCotan(torch::ones({5}))};
                            })[0];
  const absl::Status refused = Backward(twice_({out})[0]);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  for (const char* part : {"backward of N", "gradient 0", "f64[5]", "[2]"}) {
    EXPECT_THAT(refused.message(), HasSubstr(part));
  }
  EXPECT_FALSE(x_.grad().defined());
}

// Passes the gradient on. Returns two gradients beyond the inputs, the last of them defined or not.
struct EagerExtra : torch::autograd::Function<EagerExtra> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, bool defined) {
    context->saved_data["defined"] = defined;
    return x.clone();
  }
  static Tensors backward(torch::autograd::AutogradContext* context, const Tensors& incoming) {
    const bool defined = context->saved_data["defined"].toBool();
    return {incoming[0], at::Tensor(), at::Tensor(), defined ? incoming[0] : at::Tensor()};
  }
};

TEST_F(ReturnsTest, EveryEdgeHasItsGradientAndOnlyUndefinedOnesMayFollow) {
  const at::Tensor ones = torch::ones({2}, torch::kDouble);
  const at::Tensor x = Leaf(0, {2});
  (EagerExtra::apply(2 * x, false) * 2).backward(ones);
  EXPECT_ANY_THROW(EagerExtra::apply(2 * Leaf(0, {2}), true).backward(ones));

  const auto apply = [&](size_t count, bool defined) {
    const auto backward = [=](autograd::BackwardContext&, absl::Span<Tensor> g) -> absl::StatusOr<autograd::Gradients> {
      autograd::Gradients gradients(count);
      gradients[0] = g[0];
      if (defined) gradients[count - 1] = g[0];
      return gradients;
    };
    return Node({twice_({x_})[0], Variable()}, {x_.tensor()}, backward)[0];
  };
  EXPECT_THAT(Backward(apply(1, false)).message(), HasSubstr("1 gradients, expected 2"));
  EXPECT_THAT(Backward(apply(4, true)).message(), HasSubstr("4 gradients, expected 2"));
  EXPECT_FALSE(x_.grad().defined());
  WalkedAndCaptured([&] {
    Variable(x_).ClearGrad();
    const absl::Status ran = Backward(twice_({apply(4, false)})[0]);
    ASSERT_TRUE(ran.ok()) << ran;
    ExpectNear(ToTorch(x_.grad().tensor()), x.grad());
  });
}

TEST_F(ReturnsTest, SeveralPlacesOfSeveralKinds) {
  const Variable t2 = ToVariable(Leaf(1, {2})), t3 = ToVariable(Constant(2, {2}));
  const auto backward = [](autograd::BackwardContext& context,
                           absl::Span<Tensor> g) -> absl::StatusOr<autograd::Gradients> {
    EXPECT_EQ(g.size(), 2u) << "undefined results and integers have no tangent";
    EXPECT_FALSE(context.NeedsGradient(3)) << "t3 requires no grad";
    return autograd::Gradients{g[0], g[1], Tensor(), g[0]};
  };
  const Variables out = Node({twice_({x_})[0], t2, Variable(), t3},
                             {*Tensor::Scalar<int64_t>(4), x_.tensor(), Tensor(), t2.tensor()}, backward);
  const Tensor one = ToCotan(torch::ones({2}));
  ASSERT_TRUE(autograd::Backward({out[1], out[3]}, {one, one}, twice_.ops()).ok());
  EXPECT_TRUE(x_.grad().defined());
  EXPECT_TRUE(t2.grad().defined());
  EXPECT_FALSE(t3.grad().defined());
}

TEST_F(ReturnsTest, SavedPlacesWithoutAValueComeBackWithoutAValue) {
  const autograd::SavedVariable none, value(x_);
  const Variable out =
      Node({x_}, {x_.tensor()},
           [&](autograd::BackwardContext&, absl::Span<Tensor> g) -> absl::StatusOr<autograd::Gradients> {
             return autograd::Gradients{g[0]};
           })[0];
  const std::shared_ptr<autograd::Node> node = *out.grad_fn();
  EXPECT_FALSE(none.Unpack(*node)->defined());
  EXPECT_TRUE(value.Unpack(*node)->defined());
  ASSERT_TRUE(Backward(out).ok());
}

TEST_F(ReturnsTest, ASavedResultKnowsWhichOutputOfItsNodeItIs) {
  const Variables out =
      Node({twice_({x_})[0]}, {ToCotan(Constant(1, {2})), ToCotan(Constant(2, {2}))},
           [](autograd::BackwardContext&, absl::Span<Tensor> g) -> absl::StatusOr<autograd::Gradients> {
             return autograd::Gradients{g[0]};
           });
  const autograd::SavedVariable saved(out[1]);
  const std::shared_ptr<autograd::Node> node = *out[1].grad_fn();
  EXPECT_TRUE(saved.Unpack(*node).ok());
  Variable written = out[1];
  written.BumpVersion();
  EXPECT_THAT(saved.Unpack(*node).status().message(), HasSubstr("output 1 of N"));
}

TEST_F(ReturnsTest, AResultOutsideOfTheGraphHasNoGradient) {
  const Variables parts =
      Node({twice_({x_})[0]}, {x_.tensor()},
           [](autograd::BackwardContext&, absl::Span<Tensor> g) -> absl::StatusOr<autograd::Gradients> {
             return autograd::Gradients{g[0]};
           });
  const Variable b(x_.tensor());  // a result that is not differentiable is not given to ApplyFunction()
  EXPECT_FALSE(b.requires_grad());
  const Variable out =
      Node({parts[0], b}, {x_.tensor()},
           [](autograd::BackwardContext& context, absl::Span<Tensor> g) -> absl::StatusOr<autograd::Gradients> {
             EXPECT_FALSE(context.NeedsGradient(1));
             return autograd::Gradients{g[0], Tensor()};
           })[0];
  ASSERT_TRUE(Backward(out).ok());
  ExpectNear(ToTorch(x_.grad().tensor()), 2 * torch::ones({2}, torch::kDouble));
}

// Two copies, the second of them not differentiable.
struct EagerCopies : torch::autograd::Function<EagerCopies> {
  static Tensors forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    Tensors copies = {x.clone(), x.clone()};
    context->mark_non_differentiable({copies[1]});
    context->set_materialize_grads(false);
    return copies;
  }
  static Tensors backward(torch::autograd::AutogradContext*, const Tensors& incoming) {
    EXPECT_FALSE(incoming[1].defined());
    return {incoming[0]};
  }
};

// Both results are used.
TEST_F(ReturnsTest, AResultThatIsNotDifferentiableHasNoTangent) {
  const aot::TensorFunction sum = [](const Tensors& in) -> Tensors { return {in[0] + in[1]}; };
  const at::Tensor x = Leaf(0, {2});
  const Tensors copies = EagerCopies::apply(2 * x);
  EXPECT_FALSE(copies[1].requires_grad());
  sum(copies)[0].backward(torch::ones({2}, torch::kDouble));

  Compiled compiled = *Compiled::Function(sum, {Leaf(0, {2}), Constant(0, {2})}, 1);
  const Variable twice = twice_({x_})[0];
  const auto backward = [](autograd::BackwardContext&,
                           absl::Span<Tensor> incoming) -> absl::StatusOr<autograd::Gradients> {
    EXPECT_EQ(incoming.size(), 1u);
    return autograd::Gradients{incoming[0]};
  };
  const Variables results = Node({twice}, {twice.tensor(), Tensor()}, backward);
  const Variable second(twice.tensor());
  ASSERT_TRUE(Backward(compiled({results[0], second})[0]).ok());
  ExpectNear(ToTorch(x_.grad().tensor()), x.grad());
}

}  // namespace
}  // namespace cotan::testing
