// SPDX-License-Identifier: Apache-2.0

// invoke_subgraph of an archive as a block: written as torch.export writes it, read, compiled and run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "aot/compile.h"
#include "aot/frontend/pt2/model.h"
#include "aot/frontend/pt2/program_builder.h"
#include "testing/blocks/block_counts.h"
#include "testing/blocks/found_blocks.h"

namespace cotan::testing {
namespace {

namespace pt2 = aot::pt2;
using ::testing::IsEmpty;

// The graph (a, w) -> sin(a @ w). torch.export writes it once for each call.
constexpr char kLayer[] = R"JSON({"as_graph": {"name": "repeated_subgraph0", "graph": {
  "inputs": [{"as_tensor": {"name": "a"}}, {"as_tensor": {"name": "w"}}],
  "outputs": [{"as_tensor": {"name": "sin"}}],
  "nodes": [
    {"target": "torch.ops.aten.mm.default", "metadata": {},
     "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "a"}}, "kind": 1},
                {"name": "mat2", "arg": {"as_tensor": {"name": "w"}}, "kind": 1}],
     "outputs": [{"as_tensor": {"name": "mm"}}]},
    {"target": "torch.ops.aten.sin.default", "metadata": {},
     "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "mm"}}, "kind": 1}],
     "outputs": [{"as_tensor": {"name": "sin"}}]}
  ],
  "tensor_values": {}, "sym_int_values": {}, "sym_bool_values": {}, "is_single_tensor_return": false,
  "custom_obj_values": {}}}})JSON";

std::string Unary(pt2::ProgramBuilder& b, const std::string& op, const std::string& x) {
  return b.Op(absl::StrCat("aten.", op, ".default"), {{"self", pt2::Value(x)}});
}

std::string Product(pt2::ProgramBuilder& b, const std::string& x, const std::string& weight) {
  return b.Op("aten.mm.default", {{"self", pt2::Value(x)}, {"mat2", pt2::Value(weight)}});
}

// Returns the results of a call of the graph, which is one tensor.
std::string CallLayer(pt2::ProgramBuilder& b, const std::string& x, const std::string& weight) {
  return b.ListOp("higher_order.invoke_subgraph",
                  {{"", kLayer}, {"", R"({"as_string": "layer"})"}, {"", pt2::Value(x)}, {"", pt2::Value(weight)}},
                  1)[0];
}

// sum(cos(layer(layer(layer(x @ weight))))) of x f32[4, 3]; each layer has its own weight.
pt2::Model Archive(bool has_subgraphs) {
  pt2::ProgramBuilder b;
  std::string x = Product(b, b.Input("x", DType::kFloat32, {"4", "3"}), b.Parameter("weight", {3, 3}));
  for (int i = 0; i < 3; ++i) {
    const std::string weight = b.Parameter(absl::StrCat("layers.", i, ".weight"), {3, 3});
    x = has_subgraphs ? CallLayer(b, x, weight) : Unary(b, "sin", Product(b, x, weight));
    b.Describe(x, DType::kFloat32, {"4", "3"});
  }
  b.Output(Unary(b, "sum", Unary(b, "cos", x)));
  return Load(b.Files());
}

Tensors Batch(int seed) {
  return {torch::rand({4, 3}, at::detail::createCPUGenerator(static_cast<uint64_t>(seed))) - 0.5};
}

TEST(ArchiveBlocksTest, ASubgraphIsStoredOnceAndRunsAsTheModelWithoutIt) {
  const pt2::Model model = Archive(/*has_subgraphs=*/true);
  aot::CompileOptions options = TrainingOptions(/*find_blocks=*/false);
  const aot::CompiledModel steps = Compile(model, options);
  EXPECT_THAT(steps.inlined_blocks(), IsEmpty());
  ExpectSameSteps(steps, Compile(Archive(/*has_subgraphs=*/false), options), Batch);
  ExpectEager(steps, model, Batch(5));

  options.methods = {.train_step = false, .eval = false};
  const BlockCounts counts = CountBlocks(Compile(model, options));
  EXPECT_EQ(counts.blocks, 2);  // forward and backward
  EXPECT_EQ(counts.calls, (CallCounts{{"forward", 3}, {"backward", 3}}));
}

}  // namespace
}  // namespace cotan::testing
