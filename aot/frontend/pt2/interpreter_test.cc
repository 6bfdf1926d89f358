// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/pt2/interpreter.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace cotan::aot::pt2 {
namespace {

using ::testing::HasSubstr;

Argument Ref(const std::string& name) { return Name{name}; }

Node Call(const std::string& target, std::vector<NamedArgument> inputs, std::vector<Argument> outputs) {
  return {target, std::move(inputs), std::move(outputs), "layer"};
}

TEST(InterpreterTest, RunsNodesInOrder) {
  Graph graph;
  graph.nodes.push_back(Call("torch.ops.aten.mul.Tensor", {{"self", Ref("x")}, {"other", int64_t{3}}}, {Ref("mul")}));
  graph.nodes.push_back(Call("torch.ops.aten.sym_size.int", {{"self", Ref("mul")}, {"dim", int64_t{0}}}, {Ref("s")}));
  graph.nodes.push_back(Call("_operator.mul", {{"", Ref("s")}, {"", int64_t{2}}}, {Ref("twice")}));
  graph.nodes.push_back(Call("torch.ops.aten.view.default",
                             {{"self", Ref("mul")}, {"size", std::vector<Number>{Name{"twice"}, int64_t{-1}}}},
                             {Ref("view")}));
  graph.nodes.push_back(
      Call("torch.ops.aten.unbind.int", {{"self", Ref("x")}}, {Tensors{Name{"first"}, Name{"second"}}}));
  Environment values = {{"x", at::arange(4, at::kFloat).view({2, 2})}};
  RunGraph(graph, values);
  EXPECT_EQ(values.at("view").toTensor().sizes(), (std::vector<int64_t>{4, 1}));
  EXPECT_EQ(values.at("view").toTensor()[3].item<float>(), 9);
  EXPECT_EQ(values.at("second").toTensor()[0].item<float>(), 2);
}

TEST(InterpreterTest, RunsSubgraphsWithoutGradients) {
  auto inner = std::make_shared<Graph>();
  inner->inputs = {Ref("a")};
  inner->outputs = {Ref("b")};
  inner->nodes.push_back(Call("torch.ops.aten.mul.Tensor", {{"self", Ref("a")}, {"other", int64_t{2}}}, {Ref("b")}));
  Graph graph;
  graph.nodes.push_back(Call("torch.ops.higher_order.wrap_with_set_grad_enabled",
                             {{"", false}, {"", Subgraph{"inner", inner}}, {"", Ref("x")}}, {Ref("y")}));
  graph.nodes.push_back(Call("torch.ops.aten.mul.Tensor", {{"self", Ref("x")}, {"other", Ref("y")}}, {Ref("z")}));
  Environment values = {{"x", at::ones({2}).requires_grad_()}};
  RunGraph(graph, values);
  EXPECT_FALSE(values.at("y").toTensor().requires_grad());
  EXPECT_TRUE(values.at("z").toTensor().requires_grad());
}

TEST(InterpreterTest, RunsSubgraphsUnderAutocast) {
  auto inner = std::make_shared<Graph>();
  inner->inputs = {Ref("a")};
  inner->outputs = {Ref("b")};
  inner->nodes.push_back(Call("torch.ops.aten.mm.default", {{"self", Ref("a")}, {"mat2", Ref("a")}}, {Ref("b")}));
  Graph graph;
  graph.nodes.push_back(Call("torch.ops.higher_order.wrap_with_autocast",
                             {{"", std::string("cpu")},
                              {"", DType::kBFloat16},
                              {"", true},
                              {"", NoValue()},
                              {"", Subgraph{"inner", inner}},
                              {"", Ref("x")}},
                             {Ref("y")}));
  graph.nodes.push_back(Call("torch.ops.aten.mm.default", {{"self", Ref("x")}, {"mat2", Ref("x")}}, {Ref("z")}));
  Environment values = {{"x", at::ones({2, 2})}};
  RunGraph(graph, values);
  EXPECT_EQ(values.at("y").toTensor().scalar_type(), at::kBFloat16);
  EXPECT_EQ(values.at("z").toTensor().scalar_type(), at::kFloat);
}

TEST(InterpreterTest, RunsSubgraphsThatAreCalledTwice) {
  auto inner = std::make_shared<Graph>();
  inner->inputs = {Ref("a")};
  inner->outputs = {Ref("b")};
  inner->nodes.push_back(Call("torch.ops.aten.mul.Tensor", {{"self", Ref("a")}, {"other", int64_t{3}}}, {Ref("b")}));
  Graph graph;
  for (const auto& [from, to] : {std::pair("x", "y"), std::pair("y", "z")}) {
    graph.nodes.push_back(Call("torch.ops.higher_order.invoke_subgraph",
                               {{"", Subgraph{"inner", inner}}, {"", std::string("layer")}, {"", Ref(from)}},
                               {Ref(to)}));
  }
  Environment values = {{"x", at::ones({2})}};
  RunGraph(graph, values);
  EXPECT_EQ(values.at("z").toTensor()[1].item<float>(), 9);
}

TEST(InterpreterTest, RunsOpsThatTokensOrder) {
  Graph graph;
  graph.nodes.push_back(
      Call("torch.ops.higher_order.with_effects",
           {{"", Ref("token")}, {"", std::string("torch.ops.aten.mul.Tensor")}, {"", Ref("x")}, {"other", int64_t{3}}},
           {Ref("token_1"), Ref("mul")}));
  graph.nodes.push_back(Call("torch.ops.higher_order.with_effects",
                             {{"", Ref("token_1")},
                              {"", std::string("torch.ops.aten._assert_async.msg")},
                              {"", Ref("x")},
                              {"", std::string("no")}},
                             {Ref("token_2"), NoValue()}));
  EXPECT_TRUE(CheckTargets(graph).ok());
  Environment values = {{"x", at::ones({})}, {"token", c10::IValue()}};
  RunGraph(graph, values);
  EXPECT_EQ(values.at("mul").toTensor().item<float>(), 3);
  EXPECT_TRUE(values.at("token_2").isNone());
  graph.nodes[1].inputs[1].value = std::string("torch.ops.mine.shout.default");
  EXPECT_THAT(std::string(CheckTargets(graph).message()), HasSubstr("torch.ops.mine.shout.default by torch.ops."));
  graph.nodes[1].inputs[1].value = std::string("torch.ops.higher_order.with_effects");
  EXPECT_THAT(std::string(CheckTargets(graph).message()), HasSubstr("with_effects by torch.ops.higher_order."));
}

std::string ErrorOf(const Node& node) {
  Graph graph;
  graph.nodes.push_back(node);
  Environment values = {{"x", at::ones({2, 3})}};
  try {
    RunGraph(graph, values);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(InterpreterTest, NamesTheNodeThatFails) {
  EXPECT_THAT(ErrorOf(Call("torch.ops.aten.mm.default", {{"self", Ref("x")}, {"mat2", Ref("x")}}, {Ref("y")})),
              HasSubstr("torch.ops.aten.mm.default in 'layer': mm: mat1 and mat2 shapes cannot be multiplied"));
  EXPECT_THAT(ErrorOf(Call("torch.ops.aten.mm.default", {{"self", Ref("x")}}, {Ref("y")})),
              HasSubstr("argument 'mat2' is missing"));
  EXPECT_THAT(ErrorOf(Call("torch.ops.aten.relu.default", {{"self", Ref("x")}, {"inplace", true}}, {Ref("y")})),
              HasSubstr("the op has no argument 'inplace'"));
  EXPECT_THAT(ErrorOf(Call("torch.ops.aten.relu.default", {{"self", Ref("missing")}}, {Ref("y")})),
              HasSubstr("'missing' has no value"));
  EXPECT_THAT(ErrorOf(Call("torch.ops.aten.relu.default", {{"self", Ref("x")}}, {Ref("y"), Ref("z")})),
              HasSubstr("returned 1 values, not 2"));
  EXPECT_THAT(ErrorOf(Call("torch.ops.higher_order.wrap_with_set_grad_enabled", {{"", false}}, {Ref("y")})),
              HasSubstr("argument 1 is not a subgraph"));
}

TEST(InterpreterTest, LeavesOutNodesThatOnlyCheck) {
  EXPECT_EQ(ErrorOf(Call("torch.ops.aten._assert_tensor_metadata.default",
                         {{"a", Ref("x")}, {"dtype", DType::kFloat64}}, {})),
            "");
}

TEST(InterpreterTest, ChecksTargetsOfSubgraphsToo) {
  auto inner = std::make_shared<Graph>();
  inner->nodes.push_back(Call("torch.ops.mylib.op.default", {}, {}));
  Graph graph;
  graph.nodes.push_back(
      Call("torch.ops.higher_order.wrap_with_set_grad_enabled", {{"", false}, {"", Subgraph{"inner", inner}}}, {}));
  const absl::Status status = CheckTargets(graph);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("torch.ops.mylib.op.default in 'layer'"));
}

}  // namespace
}  // namespace cotan::aot::pt2
