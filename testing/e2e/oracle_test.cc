// SPDX-License-Identifier: Apache-2.0

// Tests the oracles of the training tests without a compiled program; the tests that use them compare the
// draws of compiled dropout.
#include <gtest/gtest.h>

#include "testing/e2e/eager_trainer.h"
#include "testing/e2e/philox_dropout.h"

namespace cotan::testing {
namespace {

TEST(PhiloxDropoutOracleTest, SameDrawsGiveTheSameMaskAndLaterOnesAnother) {
  PhiloxDropout dropout;
  const torch::Tensor ones = torch::ones({10, 10});
  dropout.Seek(7, 0);
  const torch::Tensor first = torch::dropout(ones, 0.25, /*train=*/true);
  EXPECT_EQ(dropout.offset(), 25u);
  const torch::Tensor second = torch::dropout(ones, 0.25, /*train=*/true);
  dropout.Seek(7, 0);
  EXPECT_TRUE(torch::equal(first, torch::dropout(ones, 0.25, /*train=*/true)));
  EXPECT_FALSE(torch::equal(first, second));
  EXPECT_NEAR((first > 0).to(torch::kFloat).mean().item<float>(), 0.75, 0.15);
}

TEST(PhiloxDropoutOracleTest, LibTorchUsesItsOwnGeneratorAfterwards) {
  { PhiloxDropout dropout; }
  torch::manual_seed(1);
  const torch::Tensor first = torch::dropout(torch::ones({100}), 0.5, /*train=*/true);
  torch::manual_seed(1);
  EXPECT_TRUE(torch::equal(first, torch::dropout(torch::ones({100}), 0.5, /*train=*/true)));
}

TEST(EagerTrainerTest, GroupsFollowPatternsAndLossFalls) {
  aot::OptimizerConfig config;
  config.options = aot::SgdOptions{.lr = 0.1, .momentum = 0.9};
  config.groups = {{{"*.bias"}, aot::SgdOptions{.lr = 0.0, .momentum = 0.9}}};
  const ModelCase& model = *FindModel("regression");
  EagerTrainer trainer(model, 3, config);
  at::Generator generator = at::detail::createCPUGenerator(4);
  const torch::Tensor input = model.make_input(generator), label = model.make_label(generator);
  const auto before = trainer.States();
  const double first = trainer.Step(input, label);
  double last = first;
  for (int i = 0; i < 20; ++i) last = trainer.Step(input, label);
  const auto after = trainer.States();
  EXPECT_LT(last, first / 2);
  EXPECT_TRUE(torch::equal(before.at("layers.0.bias"), after.at("layers.0.bias")));
  EXPECT_FALSE(torch::equal(before.at("layers.0.weight"), after.at("layers.0.weight")));
  EXPECT_EQ(after.count("optimizer.layers.0.weight.momentum_buffer"), 1u);
}

}  // namespace
}  // namespace cotan::testing
