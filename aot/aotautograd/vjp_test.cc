// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/vjp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "aot/aotautograd/tracer.h"
#include "aot/aotautograd/undefined_tangents.h"
#include "aot/ir/text.h"

namespace cotan::aot {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

TraceOptions Options() {
  TraceOptions options;
  options.backward = TraceOptions::Backward::kOutputs;
  return options;
}

// Traces a function without states and returns its vector-Jacobian product.
absl::StatusOr<VectorJacobianProduct> ProductOf(const TensorFunction& function, const Tensors& inputs) {
  const absl::StatusOr<TracedProgram> traced = Trace(function, {}, inputs, Options());
  if (!traced.ok()) return traced.status();
  return VectorJacobianProductOf(function, {}, inputs, Options(), *traced);
}

std::vector<std::string> NamesOf(const Graph& graph, InputKind kind) {
  std::vector<std::string> names;
  for (const GraphInput& input : graph.inputs()) {
    if (input.kind == kind) names.push_back(input.name);
  }
  return names;
}

TEST(VjpTest, TakesArgumentsAndTangentsAndReturnsGradients) {
  const auto product = ProductOf(
      [](const Tensors& in) -> Tensors {
        return {in[0] * in[0] * in[1], in[2].sin()};
      },
      {torch::rand({2}).requires_grad_(true), torch::rand({2}), torch::rand({3}).requires_grad_(true)});
  ASSERT_TRUE(product.ok()) << product.status();
  const auto traced = Trace(product->function, {}, product->inputs, product->options);
  ASSERT_TRUE(traced.ok()) << traced.status();
  EXPECT_THAT(NamesOf(traced->graph, InputKind::kUserInput),
              ElementsAre("input.0", "input.1", "input.2", "tangent.output.0", "tangent.output.1",
                          "tangent.output.0.is_defined", "tangent.output.1.is_defined"));
  EXPECT_THAT(traced->signature.user_outputs(), ElementsAre("gradient.input.0", "gradient.input.2"));
  EXPECT_THAT(NamesOf(traced->graph, InputKind::kTangent),
              ElementsAre("tangent.gradient.input.0", "tangent.gradient.input.2"));
}

TEST(VjpTest, DrawsRandomNumbersFromItsLastArgument) {
  const auto product = ProductOf([](const Tensors& in) -> Tensors { return {at::dropout(in[0], 0.5, true)}; },
                                 {torch::rand({8}).requires_grad_(true)});
  ASSERT_TRUE(product.ok()) << product.status();
  const auto traced = Trace(product->function, {}, product->inputs, product->options);
  ASSERT_TRUE(traced.ok()) << traced.status();
  EXPECT_THAT(NamesOf(traced->graph, InputKind::kUserInput), ElementsAre("input.0", "tangent.output.0", "rng_state"));
  EXPECT_THAT(NamesOf(traced->graph, InputKind::kRngState), ElementsAre());
  EXPECT_EQ(traced->rng_blocks, SymInt(0));
}

int64_t CountOps(const Graph& graph, absl::string_view op) {
  return std::count_if(graph.nodes().begin(), graph.nodes().end(), [op](const Node& node) { return node.op == op; });
}

// x -> sqrt(x), x * x: two gradients meet at the argument.
TEST(VjpTest, MarksTangentsAndTheGradientsThatMeet) {
  const auto product = ProductOf(
      [](const Tensors& in) -> Tensors {
        return {in[0].sqrt(), in[0] * in[0]};
      },
      {torch::rand({2}).requires_grad_(true)});
  ASSERT_TRUE(product.ok()) << product.status();
  const auto traced = Trace(product->function, {}, product->inputs, product->options);
  ASSERT_TRUE(traced.ok()) << traced.status();
  EXPECT_EQ(CountOps(traced->graph, kMarkedTangent), 2) << PrintGraph(traced->graph);
  EXPECT_GE(CountOps(traced->graph, kGradientGate), 4) << PrintGraph(traced->graph);
  Graph guarded = traced->graph;
  ASSERT_TRUE(GuardUndefinedTangents(guarded).ok());
  EXPECT_EQ(CountOps(guarded, kMarkedTangent) + CountOps(guarded, kGradientGate), 0) << PrintGraph(guarded);
  // Two in the forward and two in the backward.
  EXPECT_GE(CountOps(guarded, "aten.where.self"), 4) << PrintGraph(guarded);
}

TEST(VjpTest, OneTangentNeedsNoMarks) {
  const auto product = ProductOf([](const Tensors& in) -> Tensors { return {in[0].sqrt() + in[0] * in[0]}; },
                                 {torch::rand({2}).requires_grad_(true)});
  ASSERT_TRUE(product.ok()) << product.status();
  const auto traced = Trace(product->function, {}, product->inputs, product->options);
  ASSERT_TRUE(traced.ok()) << traced.status();
  EXPECT_EQ(CountOps(traced->graph, kMarkedTangent) + CountOps(traced->graph, kGradientGate), 0);
}

TEST(VjpTest, StopsAtConstantsOfTheFunction) {
  const auto product = ProductOf([](const Tensors& in) -> Tensors { return {in[0].detach() * in[0]}; },
                                 {torch::rand({2}).requires_grad_(true)});
  ASSERT_TRUE(product.ok()) << product.status();
  const auto traced = Trace(product->function, {}, product->inputs, product->options);
  ASSERT_TRUE(traced.ok()) << traced.status();
  // The gradient is the tangent times a constant: none with respect to the argument.
  for (const GraphOutput& output : traced->graph.outputs()) {
    if (output.kind != OutputKind::kGradient) continue;
    EXPECT_EQ(output.value == kNoValue, output.name == "input.0") << PrintGraph(traced->graph);
  }
}

TEST(VjpTest, WritesToArgumentsAreRefusedByName) {
  const auto product = ProductOf(
      [](const Tensors& in) -> Tensors {
        in[1].mul_(2);
        return {in[0] * in[1]};
      },
      {torch::rand({2}).requires_grad_(true), torch::rand({2})});
  EXPECT_EQ(product.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(product.status().message(), HasSubstr("writes to or changes its argument 'input.1'"));
}

TEST(VjpTest, AWrittenStateThatIsReadIsRefusedByName) {
  const Graph graph = *ParseGraph(
      "graph @product {\n  %0: f32[2] = buffer 0 \"count\"\n  %1: f32[2] = user_input 0 \"x\"\n"
      "  %2: f32[2] = aten.mul.Tensor(%0, %1)\n  user_output 0 \"y\" = %2\n}\n");
  EXPECT_TRUE(CheckReadsNoWrittenState({"other"}, graph).ok());
  const absl::Status refused = CheckReadsNoWrittenState({"count"}, graph);
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(refused.message(), HasSubstr("writes to 'count'"));
}

}  // namespace
}  // namespace cotan::aot
