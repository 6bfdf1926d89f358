// SPDX-License-Identifier: Apache-2.0

// invoke_subgraph of exported graphs as blocks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "aot/compile.h"
#include "aot/frontend/pt2/exported_program.h"
#include "aot/frontend/pt2/interpreter.h"
#include "runtime/autograd/engine.h"
#include "testing/blocks/block_counts.h"
#include "testing/higher_order/compiled.h"

namespace cotan::testing {
namespace {

namespace pt2 = aot::pt2;
using ::testing::IsEmpty;

pt2::Argument Ref(const std::string& name) { return pt2::Name{name}; }

pt2::Node Call(const std::string& target, std::vector<pt2::NamedArgument> inputs, std::vector<pt2::Argument> outputs) {
  return {target, std::move(inputs), std::move(outputs), "layer"};
}

// A graph (x, w) -> sin(x @ w) * factor.
std::shared_ptr<pt2::Graph> Layer(int64_t factor) {
  auto graph = std::make_shared<pt2::Graph>();
  graph->inputs = {Ref("a"), Ref("w")};
  graph->outputs = {Ref("d")};
  graph->nodes.push_back(Call("torch.ops.aten.mm.default", {{"self", Ref("a")}, {"mat2", Ref("w")}}, {Ref("b")}));
  graph->nodes.push_back(Call("torch.ops.aten.sin.default", {{"self", Ref("b")}}, {Ref("c")}));
  graph->nodes.push_back(Call("torch.ops.aten.mul.Tensor", {{"self", Ref("c")}, {"other", factor}}, {Ref("d")}));
  return graph;
}

// Calls the layers one after another on "x" with the weight "w".
pt2::Graph Chain(const std::vector<std::shared_ptr<pt2::Graph>>& layers) {
  pt2::Graph graph;
  std::string value = "x";
  for (size_t i = 0; i < layers.size(); ++i) {
    std::string next = "y" + std::to_string(i);
    graph.nodes.push_back(
        Call("torch.ops.higher_order.invoke_subgraph",
             {{"", pt2::Subgraph{"layer", layers[i]}}, {"", std::string("layer")}, {"", Ref(value)}, {"", Ref("w")}},
             {Ref(next)}));
    value = std::move(next);
  }
  graph.outputs = {Ref(value)};
  return graph;
}

void ExpectBlocks(const std::vector<std::shared_ptr<pt2::Graph>>& layers, int blocks) {
  const pt2::Graph graph = Chain(layers);
  const aot::TensorFunction function = [&graph](const Tensors& inputs) {
    pt2::Environment values = {{"x", inputs[0]}, {"w", inputs[1]}};
    pt2::RunGraph(graph, values);
    return Tensors{pt2::ValueOf(graph.outputs[0], values).toTensor()};
  };
  const Tensors inputs{Leaf(1, {3, 3}), Leaf(2, {3, 3})};
  const auto model = aot::CompileFunction(function, inputs, {});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->inlined_blocks(), IsEmpty());
  const BlockCounts counts = CountBlocks(*model);
  const int calls = static_cast<int>(layers.size());
  EXPECT_EQ(counts.blocks, blocks);
  EXPECT_EQ(counts.calls, (std::map<std::string, int>{{"forward", calls}, {"backward", calls}}));
  auto compiled = Compiled::Load(*model);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const Variables arguments = ToVariables(inputs);
  const Variables results = (*compiled)(arguments);
  ASSERT_EQ(results.size(), 1u);
  const at::Tensor expected = function(inputs)[0];
  ExpectNear(ToTorch(results[0].tensor()), expected.detach());
  const at::Tensor tangent = Constant(7, {3, 3});
  const Tensors gradients = torch::autograd::grad({expected}, inputs, {tangent});
  const auto found = autograd::Grad(results, arguments, {ToCotan(tangent)}, compiled->ops());
  ASSERT_TRUE(found.ok()) << found.status();
  for (size_t i = 0; i < gradients.size(); ++i) ExpectNear(ToTorch((*found)[i]), gradients[i]);
}

TEST(ExportedBlocksTest, SubgraphsAreStoredOnce) {
  const auto layer = Layer(2);
  ExpectBlocks({layer, layer, layer}, 2);
}

TEST(ExportedBlocksTest, CopiesOfASubgraphAreOneBlock) { ExpectBlocks({Layer(2), Layer(2)}, 2); }

TEST(ExportedBlocksTest, OtherNumbersAreOtherBlocks) { ExpectBlocks({Layer(2), Layer(3)}, 4); }

}  // namespace
}  // namespace cotan::testing
