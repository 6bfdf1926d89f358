// SPDX-License-Identifier: Apache-2.0

// How forward and backward are divided in compiled artifacts: the number of saved tensors, static and dynamic, beside
// the counts of PyTorch's partitioners, and gradients beside LibTorch eager. The rows G2 of cases.txt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "runtime/autograd/engine.h"
#include "runtime/execution/program.h"
#include "testing/higher_order/compiled.h"

namespace cotan::testing {
namespace {

Compiled Compile(const aot::TensorFunction& function, const Tensors& examples, const aot::CompileOptions& options) {
  const auto model = aot::CompileFunction(function, examples, options);
  EXPECT_TRUE(model.ok()) << model.status();
  auto compiled = Compiled::Load(*model);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *std::move(compiled);
}

const serialization::Method& MethodOf(Compiled& f, const std::string& name) {
  const Program& program = f.session().program();
  return program.method(*program.FindMethod(name));
}

// Expects the results that require grad, and the gradients for some tangents, to be those of eager.
void ExpectEager(Compiled& f, const aot::TensorFunction& function, const Tensors& given) {
  const Tensors inputs = Copies(given);
  const Variables ours = ToVariables(given);
  const Tensors expected = function(inputs);
  const Variables results = f(ours);
  Tensors eager_tangents;
  std::vector<Tensor> tangents;
  for (size_t i = 0; i < results.size(); ++i) {
    ExpectNear(ToTorch(results[i].tensor()), expected[i].detach());
    eager_tangents.push_back(Constant(static_cast<int>(70 + i), expected[i].sizes()));
    tangents.push_back(ToCotan(eager_tangents.back()));
  }
  torch::autograd::backward(expected, eager_tangents);
  const absl::Status ran = autograd::Backward(results, tangents, f.ops());
  ASSERT_TRUE(ran.ok()) << ran;
  for (size_t i = 0; i < ours.size(); ++i) {
    ASSERT_EQ(ours[i].grad().defined(), inputs[i].grad().defined()) << i;
    if (inputs[i].grad().defined()) ExpectNear(ToTorch(ours[i].grad().tensor()), inputs[i].grad());
  }
}

TEST(PartitionCasesTest, LayerNormSavesAtMostFiveValues) {
  const auto function = [](const Tensors& in) -> Tensors { return {at::layer_norm(in[0], {10}, in[1], in[2])}; };
  const Tensors given = {Leaf(0, {3, 10}), Leaf(1, {10}), Leaf(2, {10})};
  aot::CompileOptions options;
  options.partitioner = aot::Partitioner::kDefault;
  Compiled f = Compile(function, given, options);
  const serialization::Method& backward = MethodOf(f, "backward");
  EXPECT_LE(MethodOf(f, "forward").num_saved(), 5u);
  EXPECT_LE(backward.inputs_size(), 6);
  EXPECT_EQ(backward.outputs_size(), 3);
  ExpectEager(f, function, given);
}

// Sizes are symbols of both methods; they are not saved.
TEST(PartitionCasesTest, WhatOnlyNeedsSizesSavesNothing) {
  const auto function = [](const Tensors& in) -> Tensors {
    return {at::cat({in[0].expand({in[1].size(0) + in[2].size(0), in[0].size(0)}), in[1], in[2]})};
  };
  const auto inputs = [](int64_t b, int64_t c, int64_t width) -> Tensors {
    return {Leaf(0, {width}), Leaf(1, {b, width}), Leaf(2, {c, width})};
  };
  aot::CompileOptions options;
  options.dynamic_dims = {
      {0, 0, "w", 2, 32}, {1, 1, "w", 2, 32}, {2, 1, "w", 2, 32}, {1, 0, "b", 2, 32}, {2, 0, "c", 2, 32}};
  for (const aot::Partitioner partitioner : {aot::Partitioner::kDefault, aot::Partitioner::kMinCut}) {
    options.partitioner = partitioner;
    Compiled f = Compile(function, inputs(3, 4, 10), options);
    EXPECT_EQ(MethodOf(f, "forward").num_saved(), 0u);
    EXPECT_EQ(MethodOf(f, "backward").inputs_size(), 1);
    EXPECT_EQ(MethodOf(f, "backward").outputs_size(), 3);
    ExpectEager(f, function, inputs(3, 4, 10));
    ExpectEager(f, function, inputs(5, 2, 7));
  }
}

TEST(PartitionCasesTest, ProductsOfDynamicSizesSaveTheirOperands) {
  const auto function = [](const Tensors& in) -> Tensors {
    const at::Tensor joined = at::cat({in[0].expand({in[1].size(0) + in[2].size(0), in[0].size(0)}), in[1], in[2]});
    return {joined, in[2] * 1, joined.mm(in[3]).mm(in[0].view({-1, 1}))};
  };
  const auto inputs = [](int64_t b, int64_t c, int64_t width) -> Tensors {
    return {Leaf(0, {width}), Leaf(1, {b, width}), Leaf(2, {c, width}), Leaf(3, {width, width})};
  };
  aot::CompileOptions options;
  options.dynamic_dims = {{0, 0, "w", 2, 32}, {1, 1, "w", 2, 32}, {2, 1, "w", 2, 32}, {1, 0, "b", 2, 32},
                          {2, 0, "c", 2, 32}, {3, 0, "w", 2, 32}, {3, 1, "w", 2, 32}};
  for (const aot::Partitioner partitioner : {aot::Partitioner::kDefault, aot::Partitioner::kMinCut}) {
    options.partitioner = partitioner;
    Compiled f = Compile(function, inputs(3, 4, 10), options);
    EXPECT_LE(MethodOf(f, "forward").num_saved(), 4u);
    EXPECT_EQ(MethodOf(f, "backward").outputs_size(), 4);
    ExpectEager(f, function, inputs(3, 4, 10));
    ExpectEager(f, function, inputs(6, 2, 5));
  }
}

// The gradient of the argument first, that of the weight from the retained graph after it.
TEST(PartitionCasesTest, BothHalvesOfABackwardAreTheWhole) {
  const auto function = [](const Tensors& in) -> Tensors { return {(in[0] * in[1]).sum()}; };
  const Tensors given = {Leaf(0, {4, 3}), Leaf(1, {4, 3})};
  Compiled f = Compile(function, given, {});
  const Variables in = ToVariables(given);
  const Variable y = f(in)[0];
  const auto whole = autograd::Grad({y}, in, {}, f.ops(), {.retain_graph = true});
  const auto of_input = autograd::Grad({y}, {in[0]}, {}, f.ops(), {.retain_graph = true});
  const auto of_weight = autograd::Grad({y}, {in[1]}, {}, f.ops());
  ASSERT_TRUE(whole.ok() && of_input.ok() && of_weight.ok());
  EXPECT_EQ(*(*of_input)[0].ToVector<double>(), *(*whole)[0].ToVector<double>());
  EXPECT_EQ(*(*of_weight)[0].ToVector<double>(), *(*whole)[1].ToVector<double>());
  ExpectNear(ToTorch((*whole)[0]), given[1].detach());
}

// Saves a mean, which is the gradient.
struct MeanAsGradient : torch::autograd::Function<MeanAsGradient> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->saved_data["mean"] = std::get<1>(at::var_mean(at::stack({x, x}), 0));
    return x.sum();
  }
  static Tensors backward(torch::autograd::AutogradContext* context, const Tensors&) {
    return {context->saved_data["mean"].toTensor()};
  }
};

TEST(PartitionCasesTest, ASavedValueMayBeAGradientItself) {
  const auto function = [](const Tensors& in) -> Tensors { return {MeanAsGradient::apply(in[0])}; };
  for (const aot::Partitioner partitioner : {aot::Partitioner::kDefault, aot::Partitioner::kMinCut}) {
    aot::CompileOptions options;
    options.partitioner = partitioner;
    options.save_policy = [](const aot::Graph&, const aot::Node&) { return aot::SavePolicy::kSave; };
    Compiled f = Compile(function, {Leaf(0, {4})}, options);
    const Variable x = ToVariable(Leaf(0, {4}));
    ASSERT_TRUE(autograd::Backward({f({x})[0]}, {}, f.ops()).ok());
    ExpectNear(ToTorch(x.grad().tensor()), Constant(0, {4}));
  }
}

// Two parts of four products each, of which only the values between them are saved: what torch.utils.checkpoint does.
TEST(PartitionCasesTest, CheckpointsByPolicySaveTheSameUnderABudget) {
  const auto function = [](const Tensors& in) -> Tensors {
    at::Tensor x = in[0];
    for (int i = 0; i < 8; ++i) x = (x.mm(in[1]) * 0.02).tanh();
    return {x};
  };
  const Tensors given = {Leaf(0, {96, 96}), Leaf(1, {96, 96})};
  const auto between_parts = [](const aot::Graph& joint, const aot::Node& node) {
    int earlier = 0;
    for (const aot::Node& other : joint.nodes()) {
      if (other.outputs == node.outputs) break;
      earlier += other.op == node.op ? 1 : 0;
    }
    const bool is_between = node.op == "prim.matmul" && earlier == 3;
    return is_between ? aot::SavePolicy::kSave : aot::SavePolicy::kRecompute;
  };
  struct Cut {
    uint32_t num_saved;
    int backward_ops, backward_products;
  };
  const auto cut = [&](double budget, const aot::SavePolicyFunction& policy) {
    aot::CompileOptions options;
    options.activation_memory_budget = budget;
    options.save_policy = policy;
    Compiled f = Compile(function, given, options);
    ExpectEager(f, function, given);
    const serialization::Method& backward = MethodOf(f, "backward");
    Cut cut = {MethodOf(f, "forward").num_saved(), backward.ops_size(), 0};
    for (const serialization::Op& op : backward.ops()) cut.backward_products += op.has_matmul() ? 1 : 0;
    return cut;
  };
  const Cut all = cut(1, nullptr), alone = cut(1, between_parts), within = cut(0.01, between_parts);
  EXPECT_EQ(alone.num_saved, 3u);  // both arguments, and the value between the parts
  EXPECT_EQ(within.num_saved, alone.num_saved);
  EXPECT_EQ(within.backward_ops, alone.backward_ops);
  EXPECT_EQ(within.backward_products, alone.backward_products);
  EXPECT_LT(alone.num_saved, all.num_saved);
  EXPECT_GT(alone.backward_products, all.backward_products);
}

}  // namespace
}  // namespace cotan::testing
