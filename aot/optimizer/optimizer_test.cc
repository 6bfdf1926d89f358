// SPDX-License-Identifier: Apache-2.0

#include "aot/optimizer/optimizer.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "aot/ir/text.h"
#include "aot/ir/verifier.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

constexpr absl::string_view kJoint = R"(graph @train_step {
  %0: f32[4,3] = parameter 0 "layer.weight"
  %1: f32[4] = parameter 1 "layer.bias"
  %2: f32[3] = user_input 0 "x"
  %3: f32[4,3] = cotan.expr(%0, %2) {
    domain [4,3]
    0: f32 = input 0
    1: f32 = input 1
    2: f32 = mul 0 1
    store 2
  }
  gradient 0 "layer.weight" = %3
  gradient 1 "layer.bias" = %1
  gradient 2 "x" = none
}
)";

std::vector<std::string> StateNames(const NewStates& states) {
  std::vector<std::string> names;
  for (const serialization::State& state : states) names.push_back(state.name());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> Updates(const Graph& graph) {
  std::vector<std::string> names;
  for (const GraphOutput& output : graph.outputs()) {
    if (output.kind == OutputKind::kStateUpdate) names.push_back(output.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

using Names = std::vector<std::string>;

TEST(AppendOptimizerTest, PlainSgdNeedsNoSlots) {
  Graph graph = *ParseGraph(kJoint);
  const absl::StatusOr<NewStates> states = AppendOptimizer({SgdOptions{.lr = 0.1}, {}, {}, {}}, graph);
  ASSERT_TRUE(states.ok()) << states.status();
  EXPECT_TRUE(VerifyGraph(graph).ok()) << VerifyGraph(graph);
  EXPECT_EQ(StateNames(*states), (Names{"hyperparameter.lr.0", "hyperparameter.weight_decay.0"}));
  EXPECT_EQ(Updates(graph), (Names{"layer.bias", "layer.weight"}));
  for (const GraphOutput& output : graph.outputs()) EXPECT_NE(output.kind, OutputKind::kGradient);
}

TEST(AppendOptimizerTest, TheUpdateStartsFromWhatTheFunctionHasWritten) {
  Graph graph = *ParseGraph(R"(graph @train_step {
  %0: f32[4] = parameter 0 "weight"
  %1: f32[4] = user_input 0 "x"
  %2: f32[4] = cotan.expr(%0, %1) {
    domain [4]
    0: f32 = input 0
    1: f32 = input 1
    2: f32 = mul 0 1
    store 2
  }
  mutated_input 0 "weight" = %2
  gradient 0 "weight" = %1
}
)");
  const absl::StatusOr<NewStates> states = AppendOptimizer({SgdOptions{.lr = 0.1}, {}, {}, {}}, graph);
  ASSERT_TRUE(states.ok()) << states.status();
  EXPECT_TRUE(VerifyGraph(graph).ok()) << VerifyGraph(graph);
  ASSERT_EQ(graph.outputs().size(), 1u);
  EXPECT_EQ(Updates(graph), (Names{"weight"}));
  const ValueId given = graph.inputs()[0].value;
  for (auto node = std::next(graph.nodes().begin()); node != graph.nodes().end(); ++node) {
    const std::vector<ValueId> operands = TensorOperands(*node);
    EXPECT_EQ(std::count(operands.begin(), operands.end(), given), 0) << PrintGraph(graph);
  }
}

TEST(AppendOptimizerTest, MomentumAddsABufferPerParameterAndAStep) {
  Graph graph = *ParseGraph(kJoint);
  const absl::StatusOr<NewStates> states = AppendOptimizer({SgdOptions{.lr = 0.1, .momentum = 0.9}, {}, {}, {}}, graph);
  ASSERT_TRUE(states.ok()) << states.status();
  EXPECT_TRUE(VerifyGraph(graph).ok()) << VerifyGraph(graph);
  EXPECT_EQ(StateNames(*states),
            (Names{"hyperparameter.dampening.0", "hyperparameter.lr.0", "hyperparameter.momentum.0",
                   "hyperparameter.weight_decay.0", "optimizer.layer.bias.momentum_buffer",
                   "optimizer.layer.weight.momentum_buffer", "optimizer.step"}));
  EXPECT_EQ(Updates(graph), (Names{"layer.bias", "layer.weight", "optimizer.layer.bias.momentum_buffer",
                                   "optimizer.layer.weight.momentum_buffer", "optimizer.step"}));
  for (const serialization::State& state : *states) {
    if (state.name() != "optimizer.layer.weight.momentum_buffer") continue;
    EXPECT_EQ(state.owner(), "layer.weight");
    EXPECT_EQ(state.role(), serialization::State::OPTIMIZER_SLOT);
    EXPECT_EQ(state.type().sizes_size(), 2);
    EXPECT_TRUE(state.persistent());
  }
}

TEST(AppendOptimizerTest, AdamKeepsTwoMomentsAndAmsgradAThird) {
  AdamOptions options = AdamW();
  options.amsgrad = true;
  Graph graph = *ParseGraph(kJoint);
  const absl::StatusOr<NewStates> states = AppendOptimizer({options, {}, {}, {}}, graph);
  ASSERT_TRUE(states.ok()) << states.status();
  EXPECT_TRUE(VerifyGraph(graph).ok()) << VerifyGraph(graph);
  const Names updates = Updates(graph);
  EXPECT_EQ(updates.size(), 2u + 3 * 2 + 1);
  EXPECT_TRUE(std::count(updates.begin(), updates.end(), "optimizer.layer.bias.max_exp_avg_sq"));
}

TEST(AppendOptimizerTest, GroupsHaveTheirOwnHyperparameters) {
  OptimizerConfig config{SgdOptions{.lr = 0.1}, {{{"*.bias"}, SgdOptions{.lr = 0.2}}}, {}, {}};
  Graph graph = *ParseGraph(kJoint);
  const absl::StatusOr<NewStates> states = AppendOptimizer(config, graph);
  ASSERT_TRUE(states.ok()) << states.status();
  for (const serialization::State& state : *states) {
    if (state.name() == "hyperparameter.lr.0") {
      EXPECT_EQ(state.fill(), 0.1);
    }
    if (state.name() == "hyperparameter.lr.1") {
      EXPECT_EQ(state.fill(), 0.2);
    }
  }
  EXPECT_EQ(states->size(), 4u);
  config.groups[0].patterns = {"nothing*"};
  Graph other = *ParseGraph(kJoint);
  EXPECT_EQ(AppendOptimizer(config, other).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(AppendOptimizerTest, ClippingAddsItsLimits) {
  Graph graph = *ParseGraph(kJoint);
  const absl::StatusOr<NewStates> states = AppendOptimizer({SgdOptions{}, {}, 1.0, 0.5}, graph);
  ASSERT_TRUE(states.ok()) << states.status();
  EXPECT_TRUE(VerifyGraph(graph).ok()) << VerifyGraph(graph);
  const Names names = StateNames(*states);
  EXPECT_TRUE(std::count(names.begin(), names.end(), "hyperparameter.clip_norm"));
  EXPECT_TRUE(std::count(names.begin(), names.end(), "hyperparameter.clip_value"));
}

TEST(AppendOptimizerTest, NonsenseIsRefusedAsTorchDoes) {
  for (const OptimizerOptions& options :
       {OptimizerOptions(SgdOptions{.lr = -1}), OptimizerOptions(SgdOptions{.nesterov = true}),
        OptimizerOptions(SgdOptions{.momentum = 0.9, .dampening = 0.1, .nesterov = true}),
        OptimizerOptions(AdamOptions{.beta1 = 1.0}), OptimizerOptions(AdamOptions{.eps = -1e-8})}) {
    Graph graph = *ParseGraph(kJoint);
    EXPECT_EQ(AppendOptimizer({options, {}, {}, {}}, graph).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(AccumulationTest, GradientsAreAddedAndAppliedLater) {
  Graph graph = *ParseGraph(kJoint);
  const absl::StatusOr<NewStates> accumulators = AppendAccumulation(graph);
  ASSERT_TRUE(accumulators.ok()) << accumulators.status();
  EXPECT_TRUE(VerifyGraph(graph).ok());
  EXPECT_EQ(StateNames(*accumulators), (Names{"gradient.layer.bias", "gradient.layer.weight"}));
  EXPECT_EQ(Updates(graph), StateNames(*accumulators));

  const std::vector<NamedType> parameters = {{"layer.bias", {DType::kFloat32, {SymInt(4)}, {}}}};
  const absl::StatusOr<ApplyOptimizer> apply = BuildApplyOptimizer({SgdOptions{.lr = 0.1}, {}, {}, {}}, parameters);
  ASSERT_TRUE(apply.ok()) << apply.status();
  EXPECT_TRUE(VerifyGraph(apply->graph).ok());
  EXPECT_EQ(Updates(apply->graph), (Names{"gradient.layer.bias", "layer.bias"}));
}

TEST(OptimizerNameTest, TellsTheThreeApart) {
  EXPECT_EQ(OptimizerName(SgdOptions{}), "sgd");
  EXPECT_EQ(OptimizerName(AdamOptions{}), "adam");
  EXPECT_EQ(OptimizerName(AdamW()), "adamw");
}

TEST(ScaleLossTest, TheTangentIsMultipliedBeforeItIsUsed) {
  Graph graph = *ParseGraph(R"(graph @joint {
  %0: f32[] = parameter 0 "w"
  %1: f32[] = tangent 0 "t"
  %2: f32[] = prim.view(%1, [])
  user_output 0 "loss" = %0
  gradient 0 "w" = %2
})");
  const absl::StatusOr<NewStates> states = ScaleLoss({.initial_scale = 1024}, 0, graph);
  ASSERT_TRUE(states.ok()) << states.status();
  EXPECT_TRUE(VerifyGraph(graph).ok()) << VerifyGraph(graph);
  EXPECT_EQ(StateNames(*states), Names{"loss_scale"});
  EXPECT_EQ((*states)[0].fill(), 1024);
  EXPECT_EQ(graph.nodes().front().op, "cotan.expr");
  const Node& user = graph.nodes().back();
  EXPECT_EQ(user.op, "prim.view");
  EXPECT_EQ(std::get<Use>(user.arguments[0]).value, std::prev(graph.nodes().end(), 2)->outputs[0]);
  EXPECT_EQ(ScaleLoss({}, 1, graph).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(AppendOptimizerTest, LossScalingKeepsScaleAndTracker) {
  Graph graph = *ParseGraph(kJoint);
  OptimizerConfig config{SgdOptions{.lr = 0.1}, {}, {}, {}, LossScaling{}};
  const absl::StatusOr<NewStates> states = AppendOptimizer(config, graph);
  ASSERT_TRUE(states.ok()) << states.status();
  EXPECT_TRUE(VerifyGraph(graph).ok()) << VerifyGraph(graph);
  EXPECT_EQ(Updates(graph), (Names{"layer.bias", "layer.weight", "loss_scale", "loss_scale.growth_tracker"}));
  for (const LossScaling& wrong :
       {LossScaling{.initial_scale = 0}, LossScaling{.growth_factor = 0.5}, LossScaling{.backoff_factor = 1}}) {
    Graph other = *ParseGraph(kJoint);
    config.loss_scaling = wrong;
    EXPECT_EQ(AppendOptimizer(config, other).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace cotan::aot
