// SPDX-License-Identifier: Apache-2.0

// Optimizers of parameters in f64, of those in f16, and of tied parameters.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "testing/e2e/compiled_trainer.h"
#include "testing/e2e/eager_trainer.h"
#include "testing/e2e/step_comparison.h"
#include "testing/models/models.h"

namespace cotan::testing {
namespace {

constexpr uint64_t kSeed = 5;

// Two parameters in f64.
class Doubles : public Network {
 public:
  Doubles()
      : weight_(register_parameter("weight", torch::randn({5, 3}, torch::kDouble))),
        bias_(register_parameter("bias", torch::randn({3}, torch::kDouble))) {}

  torch::Tensor forward(torch::Tensor input) override { return torch::tanh(torch::matmul(input, weight_)) + bias_; }

 private:
  torch::Tensor weight_, bias_;
};

// A parameter in f16 that is added to the input. The result is in f32.
class Halves : public Network {
 public:
  Halves() : bias_(register_parameter("bias", torch::zeros({3}, torch::kHalf))) {}

  torch::Tensor forward(torch::Tensor input) override { return input + bias_.to(torch::kFloat); }

 private:
  torch::Tensor bias_;
};

// One layer, registered and called twice.
class CalledTwice : public Network {
 public:
  CalledTwice() : layer_(register_module("first", torch::nn::Linear(4, 4))) { register_module("second", layer_); }

  torch::Tensor forward(torch::Tensor input) override { return layer_(torch::tanh(layer_(input))); }

 private:
  torch::nn::Linear layer_;
};

template <typename Net>
ModelCase SumOfSquares(std::vector<int64_t> input, std::vector<int64_t> label, torch::ScalarType dtype) {
  const auto draw = [dtype](std::vector<int64_t> sizes) {
    return [sizes = std::move(sizes), dtype](at::Generator generator) { return torch::randn(sizes, generator, dtype); };
  };
  return {.name = "sum_of_squares",
          .description = "squared differences, added up",
          .make_network = [] { return std::make_shared<Net>(); },
          .loss = [](torch::Tensor output, torch::Tensor target) { return (output - target).square().sum(); },
          .make_input = draw(std::move(input)),
          .make_label = draw(std::move(label))};
}

CompiledTrainerOptions OptionsOf(const aot::OptimizerConfig& config) {
  CompiledTrainerOptions options;
  options.seed = kSeed;
  options.optimizer = config;
  return options;
}

// A norm in f32 has errors of 1e-8 of the update.
TEST(OptimizerCasesTest, TheNormOfGradientsInDoubleIsADouble) {
  const ModelCase model = SumOfSquares<Doubles>({4, 5}, {4, 3}, torch::kDouble);
  aot::OptimizerConfig config;
  config.options = aot::SgdOptions{.lr = 0.5, .momentum = 0.9};
  config.clip_norm = 0.5;
  ExpectStepsMatchEager(model, config, kSeed, /*loss_tolerance=*/1e-11);
}

// The gradient is about 2000 in each element, whose square is infinite in f16.
TEST(OptimizerCasesTest, TheNormOfGradientsInHalfIsNotInfinite) {
  const ModelCase model = SumOfSquares<Halves>({4, 3}, {4, 3}, torch::kFloat);
  aot::OptimizerConfig config;
  config.options = aot::SgdOptions{.lr = 0.5};
  config.clip_norm = 8;
  at::Generator generator = at::detail::createCPUGenerator(kSeed);
  const torch::Tensor input = model.make_input(generator) + 250, label = model.make_label(generator);
  auto compiled = CompiledTrainer::Create(model, input, label, OptionsOf(config));
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EagerTrainer eager(model, kSeed, config);
  ASSERT_TRUE((*compiled)->Step(input, label).ok());
  eager.Step(input, label);
  const auto states = (*compiled)->States();
  ASSERT_TRUE(states.ok()) << states.status();
  const torch::Tensor expected = eager.States().at("bias").to(torch::kFloat);
  EXPECT_GT(expected.abs().min().item<float>(), 2);
  EXPECT_TRUE(torch::allclose(states->at("bias").to(torch::kFloat), expected, /*rtol=*/0.01)) << states->at("bias");
}

// The weight belongs to the group of its second name, the bias to none.
void ExpectThatOnlyTheBiasMoves(bool accumulate) {
  const ModelCase model = SumOfSquares<CalledTwice>({3, 4}, {3, 4}, torch::kFloat);
  aot::OptimizerConfig config;
  config.options = aot::SgdOptions{.lr = 0.1};
  config.groups = {{{"second.w*"}, aot::SgdOptions{.lr = 0}}};
  at::Generator generator = at::detail::createCPUGenerator(kSeed);
  const torch::Tensor input = model.make_input(generator), label = model.make_label(generator);
  CompiledTrainerOptions options = OptionsOf(config);
  options.accumulate = accumulate;
  auto compiled = CompiledTrainer::Create(model, input, label, options);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const auto before = (*compiled)->States();
  ASSERT_TRUE(before.ok()) << before.status();
  if (accumulate) {
    ASSERT_TRUE((*compiled)->Accumulate(input, label).ok());
    ASSERT_TRUE((*compiled)->Update().ok());
  } else {
    ASSERT_TRUE((*compiled)->Step(input, label).ok());
  }
  const auto after = (*compiled)->States();
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_TRUE(after->at("first.weight").equal(before->at("first.weight")));
  EXPECT_FALSE(after->at("first.bias").equal(before->at("first.bias")));
}

TEST(OptimizerCasesTest, AGroupMayNameATiedParameterByItsSecondName) {
  ExpectThatOnlyTheBiasMoves(/*accumulate=*/false);
  ExpectThatOnlyTheBiasMoves(/*accumulate=*/true);
}

}  // namespace
}  // namespace cotan::testing
