// SPDX-License-Identifier: Apache-2.0

// Trains whole models through a serialized artifact and the runtime, and compares each step with LibTorch
// eager.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "testing/e2e/compiled_trainer.h"
#include "testing/e2e/eager_trainer.h"
#include "testing/e2e/philox_dropout.h"
#include "testing/models/models.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

using TensorMap = std::map<std::string, torch::Tensor>;

constexpr uint64_t kSeed = 11;

// Errors are relative to the largest value, or to `floor` if all are smaller.
double Error(const torch::Tensor& actual, const torch::Tensor& expected, double floor = 0) {
  const torch::Tensor a = actual.to(torch::kFloat).contiguous();
  const torch::Tensor e = expected.to(torch::kFloat).contiguous();
  return ErrorInEps<float>({a.data_ptr<float>(), static_cast<size_t>(a.numel())},
                           {e.data_ptr<float>(), static_cast<size_t>(e.numel())}, floor);
}

bool IsSlot(const std::string& name) { return name.rfind("optimizer.", 0) == 0; }

// Returns the largest element of all optimizer slots, or of all tensors that are not slots.
double Largest(const TensorMap& tensors, bool slots) {
  double largest = 0;
  for (const auto& [name, tensor] : tensors) {
    if (IsSlot(name) == slots) largest = std::max(largest, tensor.abs().max().item<double>());
  }
  return largest;
}

// Expects that every tensor of `expected` is in `actual`, with equal sizes and close elements. Some
// gradients (of a bias before batch norm) are 0 up to rounding: elements below a hundredth of the largest
// of all tensors count as that large.
void ExpectClose(const TensorMap& actual, const TensorMap& expected, double tolerance) {
  constexpr double kFloor = 1e-2;
  const double slot_floor = kFloor * Largest(expected, true);
  const double floor = kFloor * Largest(expected, false);
  for (const auto& [name, tensor] : expected) {
    const auto found = actual.find(name);
    ASSERT_NE(found, actual.end()) << name;
    ASSERT_EQ(found->second.sizes(), tensor.sizes()) << name;
    EXPECT_LE(Error(found->second, tensor, IsSlot(name) ? slot_floor : floor), tolerance) << name;
  }
}

void ExpectCloseLoss(double actual, double expected, double tolerance) {
  const float a = static_cast<float>(actual), e = static_cast<float>(expected);
  EXPECT_LE(ErrorInEps<float>({&a, 1}, {&e, 1}), tolerance) << actual << " and " << expected;
}

aot::OptimizerConfig Momentum() {
  aot::OptimizerConfig config;
  config.options = aot::SgdOptions{.lr = 0.01, .momentum = 0.9};
  return config;
}

// A compiled model, the same model in eager mode with equal parameters, and batches for both.
class Pair {
 public:
  Pair(const std::string& model, const aot::OptimizerConfig& optimizer, bool accumulate = false)
      : model_(*FindModel(model)), generator_(at::detail::createCPUGenerator(kSeed)) {
    Draw();
    CompiledTrainerOptions options;
    options.seed = kSeed;
    options.optimizer = optimizer;
    options.accumulate = accumulate;
    auto created = CompiledTrainer::Create(model_, input, label, options);
    status = created.status();
    if (!created.ok()) return;
    compiled = *std::move(created);
    eager = std::make_unique<EagerTrainer>(model_, kSeed, optimizer);
    dropout_.Seek(0, 0);
  }

  // Draws another batch.
  void Draw() {
    input = model_.make_input(generator_);
    label = model_.make_label(generator_);
  }

  absl::Status status;
  std::unique_ptr<CompiledTrainer> compiled;
  std::unique_ptr<EagerTrainer> eager;
  torch::Tensor input, label;

 private:
  const ModelCase& model_;
  at::Generator generator_;
  PhiloxDropout dropout_;
};

class EachModel : public ::testing::TestWithParam<std::string> {};

TEST_P(EachModel, StartsWithTheParametersOfTheModule) {
  Pair pair(GetParam(), Momentum());
  ASSERT_TRUE(pair.status.ok()) << pair.status;
  const auto states = pair.compiled->States();
  ASSERT_TRUE(states.ok()) << states.status();
  ExpectClose(*states, pair.eager->States(), kExact);
}

TEST_P(EachModel, OneStepMatchesEager) {
  Pair pair(GetParam(), Momentum());
  ASSERT_TRUE(pair.status.ok()) << pair.status;
  const auto loss = pair.compiled->Step(pair.input, pair.label);
  ASSERT_TRUE(loss.ok()) << loss.status();
  ExpectCloseLoss(*loss, pair.eager->Step(pair.input, pair.label), kModelLoss);
  const auto states = pair.compiled->States();
  ASSERT_TRUE(states.ok()) << states.status();
  ExpectClose(*states, pair.eager->States(), kModelState);
}

TEST_P(EachModel, GradientsOfForwardAndBackwardMatchEager) {
  Pair pair(GetParam(), Momentum());
  ASSERT_TRUE(pair.status.ok()) << pair.status;
  const auto gradients = pair.compiled->Gradients(pair.input, pair.label);
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  pair.eager->Accumulate(pair.input, pair.label);
  const TensorMap expected = pair.eager->Gradients();
  EXPECT_EQ(gradients->size(), expected.size());
  ExpectClose(*gradients, expected, kModelGradient);
}

// Only losses are compared: rounding errors grow from step to step, quickly in deep networks, and affect
// losses least.
TEST_P(EachModel, LossesOfTwentyStepsStayCloseToEager) {
  Pair pair(GetParam(), Momentum());
  ASSERT_TRUE(pair.status.ok()) << pair.status;
  for (int step = 0; step < 20; ++step) {
    const auto loss = pair.compiled->Step(pair.input, pair.label);
    ASSERT_TRUE(loss.ok()) << loss.status();
    ExpectCloseLoss(*loss, pair.eager->Step(pair.input, pair.label), kModelDrift);
    pair.Draw();
  }
}

TEST_P(EachModel, EvalMatchesEagerAndChangesNothing) {
  Pair pair(GetParam(), Momentum());
  ASSERT_TRUE(pair.status.ok()) << pair.status;
  ASSERT_TRUE(pair.compiled->Step(pair.input, pair.label).ok());
  pair.eager->Step(pair.input, pair.label);
  const auto before = pair.compiled->States();
  const auto output = pair.compiled->Predict(pair.input);
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_LE(Error(*output, pair.eager->Predict(pair.input)), kModelState);
  const auto after = pair.compiled->States();
  ASSERT_TRUE(before.ok() && after.ok());
  ExpectClose(*after, *before, kExact);
}

INSTANTIATE_TEST_SUITE_P(Models, EachModel, ::testing::ValuesIn(ModelNames()),
                         [](const auto& info) { return info.param; });

struct OptimizerCase {
  std::string name;
  aot::OptimizerConfig config;
};

void PrintTo(const OptimizerCase& optimizer, std::ostream* os) { *os << optimizer.name; }

std::vector<OptimizerCase> Optimizers() {
  const auto plain = [](aot::OptimizerOptions options) {
    aot::OptimizerConfig config;
    config.options = options;
    return config;
  };
  aot::AdamOptions adamw = aot::AdamW();
  adamw.lr = 0.01, adamw.weight_decay = 0.1;
  std::vector<OptimizerCase> cases = {
      {"Sgd", plain(aot::SgdOptions{.lr = 0.05})},
      {"SgdWeightDecay", plain(aot::SgdOptions{.lr = 0.05, .weight_decay = 0.1})},
      {"SgdMomentum", plain(aot::SgdOptions{.lr = 0.05, .momentum = 0.9})},
      {"SgdDampening", plain(aot::SgdOptions{.lr = 0.05, .momentum = 0.9, .dampening = 0.5})},
      {"SgdNesterov", plain(aot::SgdOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true})},
      {"Adam", plain(aot::AdamOptions{.lr = 0.01})},
      {"AdamBetas", plain(aot::AdamOptions{.lr = 0.01, .beta1 = 0.8, .beta2 = 0.9, .eps = 1e-4})},
      {"AdamWeightDecay", plain(aot::AdamOptions{.lr = 0.01, .weight_decay = 0.1})},
      {"AdamAmsgrad", plain(aot::AdamOptions{.lr = 0.01, .amsgrad = true})},
      {"AdamW", plain(adamw)},
  };
  OptimizerCase groups{"SgdGroups", plain(aot::SgdOptions{.lr = 0.05, .momentum = 0.9})};
  groups.config.groups = {{{"*.bias"}, aot::SgdOptions{.lr = 0.01, .momentum = 0.9}},
                          {{"layers.0.*"}, aot::SgdOptions{.lr = 0.02, .momentum = 0.5, .weight_decay = 0.1}}};
  cases.push_back(groups);
  OptimizerCase adam_groups{"AdamWGroups", plain(adamw)};
  aot::AdamOptions no_decay = adamw;
  no_decay.weight_decay = 0;
  adam_groups.config.groups = {{{"*.bias"}, no_decay}};
  cases.push_back(adam_groups);
  OptimizerCase clip_norm{"ClipNorm", plain(aot::SgdOptions{.lr = 0.05, .momentum = 0.9})};
  clip_norm.config.clip_norm = 0.1;
  cases.push_back(clip_norm);
  OptimizerCase loose{"ClipNormNotReached", plain(adamw)};
  loose.config.clip_norm = 1e6;
  cases.push_back(loose);
  OptimizerCase clip_value{"ClipValue", plain(aot::SgdOptions{.lr = 0.05})};
  clip_value.config.clip_value = 0.01;
  cases.push_back(clip_value);
  OptimizerCase scaling{"LossScalingThatGrows", plain(adamw)};
  scaling.config.loss_scaling = aot::LossScaling{.initial_scale = 1024, .growth_interval = 3};
  scaling.config.clip_norm = 0.1;
  cases.push_back(scaling);
  return cases;
}

class EachOptimizer : public ::testing::TestWithParam<OptimizerCase> {};

TEST_P(EachOptimizer, TenStepsMatchEager) {
  Pair pair("regression", GetParam().config);
  ASSERT_TRUE(pair.status.ok()) << pair.status;
  for (int step = 0; step < 10; ++step) {
    const auto loss = pair.compiled->Step(pair.input, pair.label);
    ASSERT_TRUE(loss.ok()) << loss.status();
    ExpectCloseLoss(*loss, pair.eager->Step(pair.input, pair.label), kModelState);
    pair.Draw();
  }
  const auto states = pair.compiled->States();
  ASSERT_TRUE(states.ok()) << states.status();
  ExpectClose(*states, pair.eager->States(), kModelDrift);
}

TEST_P(EachOptimizer, AccumulatedStepsMatchEager) {
  Pair pair("regression", GetParam().config, /*accumulate=*/true);
  ASSERT_TRUE(pair.status.ok()) << pair.status;
  for (int step = 0; step < 3; ++step) {
    for (int part = 0; part < 3; ++part) {
      const auto loss = pair.compiled->Accumulate(pair.input, pair.label);
      ASSERT_TRUE(loss.ok()) << loss.status();
      ExpectCloseLoss(*loss, pair.eager->Accumulate(pair.input, pair.label), kModelState);
      pair.Draw();
    }
    const absl::Status updated = pair.compiled->Update();
    ASSERT_TRUE(updated.ok()) << updated;
    pair.eager->Update();
  }
  const auto states = pair.compiled->States();
  ASSERT_TRUE(states.ok()) << states.status();
  ExpectClose(*states, pair.eager->States(), kModelDrift);
}

// An infinite input makes every gradient infinite or NaN.
TEST(LossScalingTest, AStepWithBadGradientsChangesOnlyTheScale) {
  aot::OptimizerConfig config;
  config.options = aot::SgdOptions{.lr = 0.05, .momentum = 0.9};
  config.loss_scaling = aot::LossScaling{.initial_scale = 1024, .growth_interval = 2};
  Pair pair("regression", config);
  ASSERT_TRUE(pair.status.ok()) << pair.status;
  for (int step = 0; step < 6; ++step) {
    torch::Tensor input = pair.input.clone();
    if (step % 3 == 1) input.view({-1})[0] = INFINITY;
    const auto loss = pair.compiled->Step(input, pair.label);
    ASSERT_TRUE(loss.ok()) << loss.status();
    const double expected = pair.eager->Step(input, pair.label);
    if (step % 3 != 1) ExpectCloseLoss(*loss, expected, kModelState);
    pair.Draw();
  }
  const auto states = pair.compiled->States();
  ASSERT_TRUE(states.ok()) << states.status();
  ExpectClose(*states, pair.eager->States(), kModelDrift);
  EXPECT_EQ(states->at("loss_scale").item<float>(), 512);
  EXPECT_EQ(states->at("loss_scale.growth_tracker").item<int64_t>(), 1);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, EachOptimizer, ::testing::ValuesIn(Optimizers()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace cotan::testing
