// SPDX-License-Identifier: Apache-2.0

#include "aot/references/reference.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>

#include <cstddef>
#include <string>
#include <vector>

#include "aot/capture/tensor_data.h"
#include "aot/ir/text.h"
#include "aot/references/tolerance.h"
#include "base/dtype.h"

namespace cotan::aot {
namespace {

// Parameters a = 1 with gradient 3 and b = 2 with gradient 4; buffer m becomes 9.
TracedProgram Program() {
  TracedProgram traced;
  traced.graph = *ParseGraph(R"(graph @step {
  %0: f32[1] = parameter 0 "a"
  %1: f32[1] = parameter 1 "b"
  %2: f32[1] = buffer 0 "m"
  mutated_input 2 "m" = %0
  user_output 0 "loss" = %0
  gradient 0 "a" = %0
  gradient 1 "b" = %0
}
)");
  const auto data = [](float value) { return ToTensorData(at::full({1}, value)); };
  traced.states.push_back({"a", serialization::State::PARAMETER, data(1), true, true, {}});
  traced.states.push_back({"b", serialization::State::PARAMETER, data(2), true, true, {}});
  traced.states.push_back({"m", serialization::State::BUFFER, data(0), false, true, {}});
  traced.reference.mutated = {data(9)};
  traced.reference.gradients = {data(3), data(4)};
  return traced;
}

float ValueOf(const std::vector<ExpectedState>& states, const std::string& name) {
  for (const ExpectedState& state : states) {
    if (state.state == name) return FromTensorData(state.content).item<float>();
  }
  ADD_FAILURE() << "no state " << name;
  return 0;
}

TEST(ReferenceTest, RunWritesBuffersOnly) {
  const std::vector<ExpectedState> after = ExpectedAfterRun(Program());
  ASSERT_EQ(after.size(), 1u);
  EXPECT_EQ(ValueOf(after, "m"), 9);
}

TEST(ReferenceTest, SgdStepsEachGroupByItsOptions) {
  OptimizerConfig config{SgdOptions{.lr = 0.1}, {}, {}, {}};
  config.groups.push_back({{"b*"}, SgdOptions{.lr = 0.5, .weight_decay = 1}});
  const std::vector<ExpectedState> after = ExpectedAfterStep(Program(), config);
  EXPECT_FLOAT_EQ(ValueOf(after, "m"), 9);
  EXPECT_FLOAT_EQ(ValueOf(after, "a"), 1 - 0.1f * 3);
  EXPECT_FLOAT_EQ(ValueOf(after, "b"), 2 - 0.5f * (4 + 2));
}

TEST(ReferenceTest, ClipsAllGradientsTogether) {
  OptimizerConfig config{SgdOptions{.lr = 1}, {}, {}, {}};
  config.clip_norm = 1;  // the norm is 5
  EXPECT_NEAR(ValueOf(ExpectedAfterStep(Program(), config), "b"), 2 - 0.8, 1e-5);
  config.clip_norm.reset();
  config.clip_value = 0.25;
  EXPECT_FLOAT_EQ(ValueOf(ExpectedAfterStep(Program(), config), "a"), 0.75);
}

TEST(ReferenceTest, SlackIsOnTheScaleOfWhatCancels) {
  const OptimizerConfig config{SgdOptions{.lr = 0.5}, {}, {}, {}};
  const double rounding = CancelledTolerance(DType::kFloat32, DType::kUndefined);
  for (const ExpectedState& state : ExpectedAfterStep(Program(), config)) {
    EXPECT_DOUBLE_EQ(state.slack, state.state == "m" ? 0 : 0.5 * rounding * 4) << state.state;
  }
}

TEST(ReferenceTest, AdamMovesByTheLearningRateAtFirst) {
  const OptimizerConfig config{AdamOptions{.lr = 0.01}, {}, {}, {}};
  const std::vector<ExpectedState> after = ExpectedAfterStep(Program(), config);
  EXPECT_NEAR(ValueOf(after, "a"), 0.99, 1e-6);
  EXPECT_EQ(after.back().slack, 0.02);
  AdamOptions up{.lr = 0.01};
  up.maximize = true;
  EXPECT_NEAR(ValueOf(ExpectedAfterStep(Program(), {up, {}, {}, {}}), "a"), 1.01, 1e-6);
}

// Parameters are stepped together; the first two are too large for that.
TEST(ReferenceTest, ParametersStepAsEachDoesAlone) {
  at::manual_seed(1);
  TracedProgram traced;
  traced.graph = *ParseGraph(R"(graph @step {
  %0: f32[10000] = parameter 0 "a"
  %1: f32[10000] = parameter 1 "b"
  %2: f64[3] = parameter 2 "c"
  %3: f32[2, 3] = parameter 3 "d"
  %4: f32[] = parameter 4 "e"
  %5: f32[0] = parameter 5 "f"
  user_output 0 "loss" = %4
  gradient 0 "a" = %0
  gradient 1 "b" = %1
  gradient 2 "c" = %2
  gradient 3 "d" = %3
  gradient 4 "e" = %4
  gradient 5 "f" = %5
}
)");
  OptimizerConfig config{AdamOptions{.lr = 0.1, .weight_decay = 0.01}, {}, {}, {}};
  config.groups.push_back({{"d"}, AdamOptions{.lr = 0.5, .maximize = true}});
  const std::vector<at::Tensor> values{at::randn({10000}), at::randn({10000}), at::randn({3}, at::kDouble),
                                       at::randn({2, 3}),  at::randn({}),      at::randn({0})};
  const std::string names = "abcdef";
  std::vector<at::Tensor> expected;
  for (size_t i = 0; i < values.size(); ++i) {
    const at::Tensor gradient = at::randn_like(values[i]);
    traced.states.push_back(
        {names.substr(i, 1), serialization::State::PARAMETER, ToTensorData(values[i]), true, true, {}});
    traced.reference.gradients.push_back(ToTensorData(gradient));
    at::Tensor alone = values[i].clone().requires_grad_(true);
    const bool in_group = names[i] == 'd';
    alone.mutable_grad() = in_group ? -gradient : gradient;
    torch::optim::Adam({alone}, torch::optim::AdamOptions(in_group ? 0.5 : 0.1).weight_decay(in_group ? 0 : 0.01))
        .step();
    expected.push_back(alone.detach());
  }
  const std::vector<ExpectedState> after = ExpectedAfterStep(traced, config);
  ASSERT_EQ(after.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(after[i].state, names.substr(i, 1));
    const at::Tensor content = FromTensorData(after[i].content);
    EXPECT_EQ(content.sizes(), values[i].sizes());
    EXPECT_TRUE(at::allclose(content, expected[i], /*rtol=*/1e-6, /*atol=*/1e-7)) << names[i];
  }
}

}  // namespace
}  // namespace cotan::aot
