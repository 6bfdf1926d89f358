// SPDX-License-Identifier: Apache-2.0

// Compiled functions and nodes of the host program in one graph, run node by node, beside LibTorch eager with custom
// functions (torch::autograd::Function). The rows C9 of cases.txt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/autograd/engine.h"
#include "runtime/autograd/function_node.h"
#include "runtime/autograd/saved_variable.h"
#include "testing/higher_order/compiled.h"

namespace cotan::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A node of the host program. Its backward gets the inputs, which the node saves, and the gradients of the results.
struct UserNode {
  std::string name;
  std::function<Tensors(const Tensors& inputs)> forward;
  std::function<Tensors(const Tensors& saved, const Tensors& incoming)> backward;
};

using Step = std::variant<aot::TensorFunction, UserNode>;

// The node in LibTorch.
struct EagerNode : torch::autograd::Function<EagerNode> {
  static Tensors forward(torch::autograd::AutogradContext* context, const UserNode* node, at::TensorList inputs) {
    context->set_materialize_grads(false);
    context->save_for_backward(inputs.vec());
    context->saved_data["node"] = reinterpret_cast<int64_t>(node);
    return node->forward(inputs.vec());
  }
  static Tensors backward(torch::autograd::AutogradContext* context, const Tensors& incoming) {
    const auto* node = reinterpret_cast<const UserNode*>(context->saved_data["node"].toInt());
    Tensors gradients = {at::Tensor()};  // of `node`
    for (at::Tensor& gradient : node->backward(context->get_saved_variables(), incoming)) {
      gradients.push_back(std::move(gradient));
    }
    return gradients;
  }
};

// The node in the runtime.
Variables Apply(const UserNode& node, const Variables& inputs) {
  Tensors values;
  for (const Variable& input : inputs) values.push_back(ToTorch(input.tensor()));
  std::vector<Tensor> outputs;
  for (const at::Tensor& output : node.forward(values)) outputs.push_back(ToCotan(output));
  auto self = std::make_shared<std::weak_ptr<autograd::Node>>();
  std::vector<autograd::SavedVariable> saved;
  for (const Variable& input : inputs) saved.emplace_back(input);
  auto backward = [&node, self, saved = std::move(saved)](
                      autograd::BackwardContext&, absl::Span<Tensor> incoming) -> absl::StatusOr<autograd::Gradients> {
    Tensors values, tangents;
    for (const autograd::SavedVariable& variable : saved) {
      const absl::StatusOr<Tensor> value = variable.Unpack(*self->lock());
      if (!value.ok()) return value.status();
      values.push_back(ToTorch(*value));
    }
    for (const Tensor& tangent : incoming) tangents.push_back(tangent.defined() ? ToTorch(tangent) : at::Tensor());
    autograd::Gradients gradients;
    for (const at::Tensor& gradient : node.backward(values, tangents)) {
      gradients.push_back(gradient.defined() ? ToCotan(gradient) : Tensor());
    }
    return gradients;
  };
  const auto results = autograd::ApplyFunction(node.name, inputs, outputs, std::move(backward));
  EXPECT_TRUE(results.ok()) << results.status();
  if ((*results)[0].requires_grad()) *self = *(*results)[0].grad_fn();
  return *results;
}

// Functions, each compiled with its first dimensions dynamic, and nodes, one after another.
class Chain {
 public:
  Chain(std::vector<Step> steps, const Tensors& examples) : steps_(std::move(steps)) {
    Tensors values = examples;
    for (const Step& step : steps_) {
      compiled_.push_back(std::holds_alternative<UserNode>(step) ? nullptr : Compile(step, values));
      values = Eager(step, values);
    }
  }

  // Expects the results, and the gradients of the inputs for some tangents, of both sides to be equal.
  void ExpectEager(const Tensors& given) {
    const Tensors inputs = Copies(given);
    Tensors eager = inputs;
    const Variables leaves = ToVariables(given);
    Variables ours = leaves;
    for (size_t i = 0; i < steps_.size(); ++i) {
      eager = Eager(steps_[i], eager);
      ours = compiled_[i] == nullptr ? Apply(std::get<UserNode>(steps_[i]), ours) : (*compiled_[i])(ours);
      ASSERT_EQ(ours.size(), eager.size());
    }
    Tensors eager_tangents;
    std::vector<Tensor> tangents;
    for (size_t i = 0; i < ours.size(); ++i) {
      ExpectNear(ToTorch(ours[i].tensor()), eager[i].detach());
      eager_tangents.push_back(Constant(static_cast<int>(40 + i), eager[i].sizes()));
      tangents.push_back(ToCotan(eager_tangents.back()));
    }
    torch::autograd::backward(eager, eager_tangents);
    const absl::Status ran = autograd::Backward(ours, tangents, compiled_[0]->ops());
    ASSERT_TRUE(ran.ok()) << ran;
    for (size_t i = 0; i < leaves.size(); ++i) {
      ASSERT_EQ(leaves[i].grad().defined(), inputs[i].grad().defined()) << i;
      if (inputs[i].grad().defined()) ExpectNear(ToTorch(leaves[i].grad().tensor()), inputs[i].grad());
    }
  }

 private:
  static Tensors Eager(const Step& step, const Tensors& values) {
    if (const auto* function = std::get_if<aot::TensorFunction>(&step)) return (*function)(values);
    return EagerNode::apply(&std::get<UserNode>(step), at::TensorList(values));
  }
  static std::unique_ptr<Compiled> Compile(const Step& step, const Tensors& values) {
    Tensors examples;
    aot::CompileOptions options;
    for (size_t i = 0; i < values.size(); ++i) {
      examples.push_back(values[i].detach().clone().set_requires_grad(values[i].requires_grad()));
      options.dynamic_dims.push_back({static_cast<int>(i), 0, "n", 2, 128});
    }
    const auto model = aot::CompileFunction(std::get<aot::TensorFunction>(step), examples, options);
    EXPECT_TRUE(model.ok()) << model.status();
    absl::StatusOr<Compiled> compiled = Compiled::Load(*model);
    EXPECT_TRUE(compiled.ok()) << compiled.status();
    return std::make_unique<Compiled>(*std::move(compiled));
  }

  const std::vector<Step> steps_;
  std::vector<std::unique_ptr<Compiled>> compiled_;  // null for a node
};

Tensors Twice(const Tensors& in) {
  Tensors out;
  for (const at::Tensor& x : in) out.push_back(x * 2);
  return out;
}
Tensors Product(const Tensors& in) { return {in.size() == 1 ? in[0] * in[0] : in[0] * in[1]}; }

// Runs 2x, the node and a product for several sizes.
void ExpectEagerAtSizes(const UserNode& node, int num_inputs) {
  const auto inputs = [&](int64_t n) {
    Tensors leaves;
    for (int i = 0; i < num_inputs; ++i) leaves.push_back(Leaf(i, {n}));
    return leaves;
  };
  Chain chain({aot::TensorFunction(Twice), node, aot::TensorFunction(Product)}, inputs(10));
  for (const int64_t n : {10, 100, 10, 15, 20, 25}) {
    SCOPED_TRACE(::testing::Message() << "size " << n);
    chain.ExpectEager(inputs(n));
  }
}

TEST(UserNodesTest, ASavedInputHasAnySize) {
  ExpectEagerAtSizes({"Sin", [](const Tensors& in) -> Tensors { return {in[0].sin()}; },
                      [](const Tensors& saved, const Tensors& g) -> Tensors { return {g[0] * saved[0].cos()}; }},
                     1);
}

TEST(UserNodesTest, SavedValuesKeepTheirOrder) {
  ExpectEagerAtSizes({"Sines",
                      [](const Tensors& in) -> Tensors {
                        return {in[0].sin(), in[1].sin() * 3};
                      },
                      [](const Tensors& saved, const Tensors& g) -> Tensors {
                        return {g[0] * saved[0].cos(), g[1] * saved[1].cos() * 3};
                      }},
                     2);
}

TEST(UserNodesTest, OneInputIsSavedTwice) {
  Chain chain({aot::TensorFunction(Twice), aot::TensorFunction([](const Tensors& in) -> Tensors {
                 return {in[0].sin(), in[0].cos()};
               }),
               UserNode{"Pair", [](const Tensors& in) -> Tensors { return {in[0] * in[1] * in[1]}; },
                        [](const Tensors& saved, const Tensors& g) -> Tensors {
                          return {g[0] * saved[1] * saved[1], 2 * g[0] * saved[0] * saved[1]};
                        }}},
              {Leaf(0, {10})});
  for (const int64_t n : {10, 100, 15}) chain.ExpectEager({Leaf(1, {n})});

  // The same variable in both places of one node.
  const Variable x = ToVariable(Leaf(0, {3}));
  auto twice = Compiled::Function(Twice, {Leaf(0, {3}) * 1}, 1);
  ASSERT_TRUE(twice.ok()) << twice.status();
  const UserNode node = {"Square", [](const Tensors& in) -> Tensors { return {in[0] * in[1]}; },
                         [](const Tensors& saved, const Tensors& g) -> Tensors {
                           return {g[0] * saved[1], g[0] * saved[0]};
                         }};
  const Variable y = Apply(node, {x, x})[0];
  ASSERT_TRUE(autograd::Backward({(*twice)({y})[0]}, {ToCotan(torch::ones({3}))}, twice->ops()).ok());
  ExpectNear(ToTorch(x.grad().tensor()), 4 * Constant(0, {3}));
}

TEST(UserNodesTest, SizesAreThoseOfTheCall) {
  const auto same = [](const Tensors& in) -> Tensors { return {in[0].clone()}; };
  ExpectEagerAtSizes({"BySize", same,
                      [](const Tensors& saved, const Tensors& g) -> Tensors {
                        return {g[0] * static_cast<double>(saved[0].size(0))};
                      }},
                     1);
}

TEST(UserNodesTest, PlacesWithoutATensorHaveNoGradient) {
  const Variable x = ToVariable(Leaf(0, {3})), z = ToVariable(Leaf(1, {3}));
  auto scaled = Compiled::Function(
      [](const Tensors& in) -> Tensors {
        return {in[0] * 2, in[1] * 4};
      },
      {Leaf(0, {3}), Leaf(1, {3})}, 1);
  ASSERT_TRUE(scaled.ok()) << scaled.status();
  const Variables values = (*scaled)({x, z});
  const auto backward = [](autograd::BackwardContext& context,
                           absl::Span<Tensor> g) -> absl::StatusOr<autograd::Gradients> {
    EXPECT_FALSE(context.NeedsGradient(1));
    return autograd::Gradients{g[0], Tensor(), g[1]};
  };
  const auto out =
      autograd::ApplyFunction("Places", {values[0], Variable(), values[1]},
                              {values[0].tensor(), *Tensor::Scalar<int64_t>(21), values[1].tensor()}, backward);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_FALSE((*out)[1].requires_grad());
  const Tensor one = ToCotan(torch::ones({3}));
  ASSERT_TRUE(autograd::Backward({(*out)[0], (*out)[2]}, {one, one}, scaled->ops()).ok());
  ExpectNear(ToTorch(x.grad().tensor()), 2 * torch::ones({3}, torch::kDouble));
  ExpectNear(ToTorch(z.grad().tensor()), 4 * torch::ones({3}, torch::kDouble));
}

UserNode Factor(const std::string& name, double factor) {
  return {name, [](const Tensors& in) -> Tensors { return {in[0].clone()}; },
          [factor](const Tensors&, const Tensors& g) -> Tensors { return {g[0] * factor}; }};
}

TEST(UserNodesTest, EqualNodesAndNodesOfSeveralTypesFollowOneAnother) {
  const Step twice = aot::TensorFunction(Twice);
  const UserNode a = Factor("A", 10), b = Factor("B", 20), c = Factor("C", 30), a2 = Factor("A2", 10);
  for (const std::vector<UserNode>& nodes :
       {std::vector<UserNode>{a, a2, a, a2}, {a, b, c}, {a, a, a, a}, {a, b, a, b}}) {
    std::vector<Step> steps = {twice};
    steps.insert(steps.end(), nodes.begin(), nodes.end());
    steps.push_back(aot::TensorFunction(Product));
    Chain(steps, {Leaf(0, {4})}).ExpectEager({Leaf(1, {4})});
  }
}

TEST(UserNodesTest, EffectsOfTheHostHappenOncePerBackwardInOrder) {
  std::vector<std::string> log;
  const auto logging = [&](const std::string& name) {
    UserNode node = Factor(name, 1);
    node.backward = [&log, name](const Tensors& saved, const Tensors& g) -> Tensors {
      log.push_back(name + std::to_string(saved[0].size(0)));
      return {g[0]};
    };
    return node;
  };
  Chain chain({aot::TensorFunction(Twice), logging("a"), logging("b"), aot::TensorFunction(Product)}, {Leaf(0, {10})});
  for (const int64_t n : {10, 100, 15}) chain.ExpectEager({Leaf(0, {n})});
  // Eager's run is the first of each pair.
  EXPECT_THAT(log, ElementsAre("b10", "a10", "b10", "a10", "b100", "a100", "b100", "a100", "b15", "a15", "b15", "a15"));
}

TEST(UserNodesTest, NodesKeepDataOfAnyKind) {
  struct Data {
    at::Tensor tensor = torch::ones({2, 2}, torch::kDouble);
    bool flag = true;
    int64_t number = 1;
    std::vector<std::string> list = {"a", "b"};
    std::map<std::string, int> map = {{"key", 2}};
  } data;
  ExpectEagerAtSizes({"Data", [](const Tensors& in) -> Tensors { return {in[0] * in[1]}; },
                      [data](const Tensors& saved, const Tensors& g) -> Tensors {
                        EXPECT_TRUE(data.flag);
                        EXPECT_THAT(data.list, ElementsAre("a", "b"));
                        EXPECT_EQ(data.map.at("key"), 2);
                        const at::Tensor both = saved[0] + saved[1] + data.tensor.sum() + data.number;
                        return {both * g[0], both};
                      }},
                     2);
  ExpectEagerAtSizes(
      {"View", [](const Tensors& in) -> Tensors { return {in[0].clone()}; },
       [](const Tensors& saved, const Tensors&) -> Tensors { return {saved[0] + saved[0].view({-1}).sum()}; }},
      1);
}

TEST(UserNodesTest, NumbersAreThoseOfTheNode) {
  const Step twice = aot::TensorFunction(Twice);
  for (const double y : {1.0, 2.0, 3.0, 1.0, 1.1, 2.2, 3.3, 1.1}) {
    const UserNode node = {"Number", [](const Tensors& in) -> Tensors { return {in[0].clone()}; },
                           [y](const Tensors& saved, const Tensors&) -> Tensors { return {saved[0] + 2 * y}; }};
    Chain({twice, node}, {Leaf(0, {5})}).ExpectEager({Leaf(0, {5})});
  }
}

// An identity node on a view, of f16, which no step casts or copies in between.
TEST(UserNodesTest, GradientsKeepTheirDTypeThroughViews) {
  auto compiled = Compiled::Function(Twice, {Leaf(0, {9})}, 1);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  TensorOps& ops = compiled->ops();
  const Tensor zeros = *ops.Zeros(DType::kFloat16, {9});
  const Variable x = *Variable::Leaf(zeros);
  const Variable view = *x.View({view::View{.sizes = {3, 3}}});
  const void* seen = nullptr;
  const auto backward = [&](autograd::BackwardContext&, absl::Span<Tensor> g) -> absl::StatusOr<autograd::Gradients> {
    EXPECT_EQ(g[0].dtype(), DType::kFloat16);
    seen = g[0].address();
    return autograd::Gradients{g[0]};
  };
  const Variable out = (*autograd::ApplyFunction("Same", {view}, {view.tensor()}, backward))[0];
  const Tensor tangent = *ops.Ones(DType::kFloat16, {3, 3});
  ASSERT_TRUE(autograd::Backward({out}, {tangent}, ops).ok());
  EXPECT_EQ(seen, tangent.address()) << "the tangent is not copied";
  EXPECT_EQ(x.grad().dtype(), DType::kFloat16);
  EXPECT_THAT(x.grad().sizes(), ElementsAre(9));
}

// --- What the node returns, and does not -----------------------------------------------------------------------------

// Compiled functions before and after the nodes of a test.
class ReturnsTest : public ::testing::Test {
 protected:
  ReturnsTest() : twice_(*Compiled::Function(Twice, {Leaf(0, {2})}, 1)) {}

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

TEST_F(ReturnsTest, EveryEdgeHasItsGradient) {
  for (const size_t count : {1u, 3u}) {
    const auto backward = [count](autograd::BackwardContext&,
                                  absl::Span<Tensor> g) -> absl::StatusOr<autograd::Gradients> {
      autograd::Gradients gradients;
      for (size_t i = 0; i < count; ++i) gradients.push_back(i == 0 ? g[0] : Tensor());
      return gradients;
    };
    const Variable out = Node({x_, Variable()}, {x_.tensor()}, backward)[0];
    EXPECT_THAT(Backward(out).message(), HasSubstr(std::to_string(count) + " gradients, expected 2"));
  }
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

TEST_F(ReturnsTest, SavedValuesAreFreedWithTheGraph) {
  const UserNode square = {"Square", [](const Tensors& in) -> Tensors { return {in[0] * in[0]}; },
                           [](const Tensors& saved, const Tensors& g) -> Tensors { return {2 * saved[0] * g[0]}; }};
  const Variable y = Apply(square, {twice_({x_})[0]})[0];
  ASSERT_TRUE(Backward(y).ok());
  const absl::Status freed = Backward(y);
  EXPECT_EQ(freed.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(freed.message(), HasSubstr("Square"));
  EXPECT_THAT(freed.message(), HasSubstr("second time"));
}

TEST(UserNodesTest, AnOpWithoutDerivativeIsRefusedByName) {
  const auto function = [](const Tensors& in) -> Tensors { return {at::special_zeta(in[0] + 2, in[1])}; };
  const Tensors leaves = {Leaf(0, {3}), Leaf(1, {3})};
  EXPECT_THROW(function(leaves)[0].sum().backward(), c10::Error);
  const absl::Status refused = Compiled::Function(function, leaves, 1).status();
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.message()), HasSubstr("zeta"));
}

}  // namespace
}  // namespace cotan::testing
