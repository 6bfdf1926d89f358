// SPDX-License-Identifier: Apache-2.0

// Compiled functions and nodes of the host program in one graph, walked and captured, beside LibTorch eager with custom
// functions (torch::autograd::Function). The rows C9 of cases.txt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/autograd/engine.h"
#include "runtime/autograd/function_node.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/autograd/saved_variable.h"
#include "runtime/compiled_autograd/compiled_autograd.h"
#include "testing/autograd/walked_and_captured.h"
#include "testing/higher_order/compiled.h"

namespace cotan::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

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

  // Runs the steps in eager, node by node and captured. Expects equal results and, for some tangents, equal gradients
  // of the inputs, of the last two bit for bit.
  void ExpectEager(const Tensors& given) {
    const Tensors inputs = Copies(given);
    Tensors eager = inputs, tangents;
    for (const Step& step : steps_) eager = Eager(step, eager);
    for (size_t i = 0; i < eager.size(); ++i) {
      tangents.push_back(Constant(static_cast<int>(40 + i), eager[i].sizes()));
    }
    torch::autograd::backward(eager, tangents);
    Tensors walked;
    for (const bool captured : {false, true}) {
      SCOPED_TRACE(captured ? "captured" : "walked");
      const Tensors gradients = Gradients(given, eager, tangents, captured);
      ASSERT_EQ(gradients.size(), inputs.size());
      for (size_t i = 0; i < inputs.size(); ++i) {
        ASSERT_EQ(gradients[i].defined(), inputs[i].grad().defined()) << i;
        if (!gradients[i].defined()) continue;
        ExpectNear(gradients[i], inputs[i].grad());
        if (!captured) continue;
        EXPECT_TRUE(at::equal(gradients[i].view(torch::kLong), walked[i].view(torch::kLong))) << i;
      }
      walked = gradients;
    }
  }

 private:
  // Returns the gradients of the inputs, undefined ones too; none if the results are not those of eager.
  Tensors Gradients(const Tensors& given, const Tensors& eager, const Tensors& tangents, bool captured) {
    const Variables leaves = ToVariables(given);
    Variables results = leaves;
    for (size_t i = 0; i < steps_.size(); ++i) {
      results = compiled_[i] == nullptr ? Apply(std::get<UserNode>(steps_[i]), results) : (*compiled_[i])(results);
    }
    EXPECT_EQ(results.size(), eager.size());
    if (results.size() != eager.size()) return {};
    std::vector<Tensor> ours;
    for (size_t i = 0; i < results.size(); ++i) {
      ExpectNear(ToTorch(results[i].tensor()), eager[i].detach());
      ours.push_back(ToCotan(tangents[i]));
    }
    std::optional<CompiledAutograd> scope;
    if (captured) scope.emplace();
    const absl::Status ran = autograd::Backward(results, ours, compiled_[0]->ops());
    EXPECT_TRUE(ran.ok()) << ran;
    Tensors gradients;
    for (const Variable& leaf : leaves) {
      gradients.push_back(leaf.grad().defined() ? ToTorch(leaf.grad().tensor()) : at::Tensor());
    }
    return gradients;
  }
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

constexpr int64_t kSizes[] = {10, 100, 10, 15, 20, 25};

// Expects what was captured since the last Reset().
void ExpectCaptured(int captures, int called_nodes) {
  EXPECT_EQ(CompiledAutograd::Stats().captures, captures) << ::testing::PrintToString(CompiledAutograd::Reasons());
  EXPECT_EQ(CompiledAutograd::Stats().called_nodes, called_nodes);
  EXPECT_EQ(CompiledAutograd::Stats().walked_segments, 0) << ::testing::PrintToString(CompiledAutograd::Messages());
}

// Runs 2x, the node and a product for several sizes, which are one capture.
void ExpectEagerAtSizes(const UserNode& node, int num_inputs) {
  const auto inputs = [&](int64_t n) {
    Tensors leaves;
    for (int i = 0; i < num_inputs; ++i) leaves.push_back(Leaf(i, {n}));
    return leaves;
  };
  Chain chain({aot::TensorFunction(Twice), node, aot::TensorFunction(Product)}, inputs(10));
  ASSERT_TRUE(CompiledAutograd::Reset().ok());
  for (const int64_t n : kSizes) {
    SCOPED_TRACE(::testing::Message() << "size " << n);
    chain.ExpectEager(inputs(n));
  }
  ExpectCaptured(/*captures=*/1, /*called_nodes=*/6);
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
  ASSERT_TRUE(CompiledAutograd::Reset().ok());
  for (const int64_t n : kSizes) chain.ExpectEager({Leaf(1, {n})});
  ExpectCaptured(/*captures=*/1, /*called_nodes=*/6);

  // The same variable in both places of one node.
  auto twice = Compiled::Function(Twice, {Leaf(0, {3}) * 1}, 1);
  ASSERT_TRUE(twice.ok()) << twice.status();
  const UserNode node = {"Square", [](const Tensors& in) -> Tensors { return {in[0] * in[1]}; },
                         [](const Tensors& saved, const Tensors& g) -> Tensors {
                           return {g[0] * saved[1], g[0] * saved[0]};
                         }};
  WalkedAndCaptured([&] {
    const Variable x = ToVariable(Leaf(0, {3}));
    const Variable y = Apply(node, {x, x})[0];
    ASSERT_TRUE(autograd::Backward({(*twice)({y})[0]}, {ToCotan(torch::ones({3}))}, twice->ops()).ok());
    ExpectNear(ToTorch(x.grad().tensor()), 4 * Constant(0, {3}));
  });
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
  auto scaled = Compiled::Function(
      [](const Tensors& in) -> Tensors {
        return {in[0] * 2, in[1] * 4};
      },
      {Leaf(0, {3}), Leaf(1, {3})}, 1);
  ASSERT_TRUE(scaled.ok()) << scaled.status();
  const auto backward = [](autograd::BackwardContext& context,
                           absl::Span<Tensor> g) -> absl::StatusOr<autograd::Gradients> {
    EXPECT_FALSE(context.NeedsGradient(1));
    return autograd::Gradients{g[0], Tensor(), g[1]};
  };
  WalkedAndCaptured([&] {
    const Variable x = ToVariable(Leaf(0, {3})), z = ToVariable(Leaf(1, {3}));
    const Variables values = (*scaled)({x, z});
    const auto out =
        autograd::ApplyFunction("Places", {values[0], Variable(), values[1]},
                                {values[0].tensor(), *Tensor::Scalar<int64_t>(21), values[1].tensor()}, backward);
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_FALSE((*out)[1].requires_grad());
    const Tensor one = ToCotan(torch::ones({3}));
    ASSERT_TRUE(autograd::Backward({(*out)[0], (*out)[2]}, {one, one}, scaled->ops()).ok());
    ExpectNear(ToTorch(x.grad().tensor()), 2 * torch::ones({3}, torch::kDouble));
    ExpectNear(ToTorch(z.grad().tensor()), 4 * torch::ones({3}, torch::kDouble));
  });
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
    ASSERT_TRUE(CompiledAutograd::Reset().ok());
    Chain(steps, {Leaf(0, {4})}).ExpectEager({Leaf(1, {4})});
    ExpectCaptured(/*captures=*/1, static_cast<int>(nodes.size()));
  }
}

TEST(UserNodesTest, TheNameOfANodeIsPartOfTheKey) {
  const aot::TensorFunction twice = Twice, product = Product;
  Chain a({twice, Factor("A", 10), product}, {Leaf(0, {4})}), b({twice, Factor("B", 20), product}, {Leaf(0, {4})});
  for (const bool alternates : {false, true}) {
    ASSERT_TRUE(CompiledAutograd::Reset().ok());
    for (int run = 0; run < 4; ++run) (alternates && run % 2 == 1 ? b : a).ExpectEager({Leaf(run, {4})});
    ExpectCaptured(/*captures=*/alternates ? 2 : 1, /*called_nodes=*/4);
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
  ASSERT_TRUE(CompiledAutograd::Reset().ok());
  for (const int64_t n : kSizes) {
    log.clear();
    chain.ExpectEager({Leaf(0, {n})});
    const std::string a = "a" + std::to_string(n), b = "b" + std::to_string(n);
    EXPECT_THAT(log, ElementsAre(b, a, b, a, b, a)) << "of eager, the walk and the captured backward";
  }
  ExpectCaptured(/*captures=*/1, /*called_nodes=*/12);
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
  double y = 0;
  const UserNode node = {"Number", [](const Tensors& in) -> Tensors { return {in[0].clone()}; },
                         [&y](const Tensors& saved, const Tensors&) -> Tensors { return {saved[0] + 2 * y}; }};
  Chain chain({aot::TensorFunction(Twice), node}, {Leaf(0, {5})});
  ASSERT_TRUE(CompiledAutograd::Reset().ok());
  for (const double number : {1.0, 2.0, 3.0, 1.0, 1.1, 2.2, 3.3, 1.1}) {
    y = number;
    chain.ExpectEager({Leaf(0, {5})});
  }
  ExpectCaptured(/*captures=*/1, /*called_nodes=*/8);
}

// An identity node on a view, of f16, which no step casts or copies in between.
TEST(UserNodesTest, GradientsKeepTheirDTypeThroughViews) {
  auto compiled = Compiled::Function(Twice, {Leaf(0, {9})}, 1);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  TensorOps& ops = compiled->ops();
  const Tensor zeros = *ops.Zeros(DType::kFloat16, {9}), tangent = *ops.Ones(DType::kFloat16, {3, 3});
  WalkedAndCaptured([&] {
    const Variable x = *Variable::Leaf(zeros);
    const Variable view = *x.View({view::View{.sizes = {3, 3}}});
    const void* seen = nullptr;
    const auto backward = [&](autograd::BackwardContext&, absl::Span<Tensor> g) -> absl::StatusOr<autograd::Gradients> {
      EXPECT_EQ(g[0].dtype(), DType::kFloat16);
      seen = g[0].address();
      return autograd::Gradients{g[0]};
    };
    const Variable out = (*autograd::ApplyFunction("Same", {view}, {view.tensor()}, backward))[0];
    ASSERT_TRUE(autograd::Backward({out}, {tangent}, ops).ok());
    EXPECT_EQ(seen, tangent.address()) << "the tangent is not copied";
    EXPECT_EQ(x.grad().dtype(), DType::kFloat16);
    EXPECT_THAT(x.grad().sizes(), ElementsAre(9));
  });
  EXPECT_THAT(CompiledAutograd::Text(), HasSubstr("f16[9]"));
  EXPECT_THAT(CompiledAutograd::Text(), Not(HasSubstr("expr"))) << "nothing is computed";
}

// AG-074.
TEST(UserNodesTest, AnErrorOfAnInnerBackwardIsThatOfTheOuterOneAndTheNextOneWorks) {
  auto compiled = Compiled::Function(Twice, {Leaf(0, {2})}, 1);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  Compiled& twice = *compiled;
  const Tensor one = ToCotan(torch::ones({2}));
  WalkedAndCaptured([&] {
    for (const bool fails : {true, false}) {
      const auto end = [fails] { return fails ? absl::AbortedError("no luck") : absl::OkStatus(); };
      const auto inner = [&] {
        const GradModeGuard grad(true);
        return autograd::Backward(twice({WithInner(ToVariable(Leaf(1, {2})), end)}), {one}, twice.ops());
      };
      const Variable x = ToVariable(Leaf(0, {2}));
      const absl::Status ran = autograd::Backward(twice({WithInner(twice({x})[0], inner)}), {one}, twice.ops());
      EXPECT_EQ(ran.code(), fails ? absl::StatusCode::kAborted : absl::StatusCode::kOk);
      EXPECT_THAT(ran.message(), HasSubstr(fails ? "no luck" : ""));
      EXPECT_EQ(x.grad().defined(), !fails);
      if (!fails) ExpectNear(ToTorch(x.grad().tensor()), 4 * torch::ones({2}, torch::kDouble));
    }
  });
}

TEST(UserNodesTest, SavedValuesAreFreedWithTheGraph) {
  auto twice = Compiled::Function(Twice, {Leaf(0, {2})}, 1);
  ASSERT_TRUE(twice.ok()) << twice.status();
  const UserNode square = {"Square", [](const Tensors& in) -> Tensors { return {in[0] * in[0]}; },
                           [](const Tensors& saved, const Tensors& g) -> Tensors { return {2 * saved[0] * g[0]}; }};
  WalkedAndCaptured([&] {
    const Variables y = Apply(square, (*twice)({ToVariable(Leaf(0, {2}))}));
    const Tensor one = ToCotan(torch::ones({2}));
    ASSERT_TRUE(autograd::Backward(y, {one}, twice->ops()).ok());
    const absl::Status freed = autograd::Backward(y, {one}, twice->ops());
    EXPECT_EQ(freed.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(freed.message(), HasSubstr("Square"));
    EXPECT_THAT(freed.message(), HasSubstr("second time"));
  });
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
