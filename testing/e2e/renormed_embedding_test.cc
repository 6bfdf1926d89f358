// SPDX-License-Identifier: Apache-2.0

// Trains an embedding with max_norm, which writes to the rows that are looked up before the optimizer does. Each step
// is compared with LibTorch eager.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <string>

#include "testing/e2e/compiled_trainer.h"
#include "testing/e2e/eager_trainer.h"
#include "testing/models/models.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

constexpr uint64_t kSeed = 7;
constexpr int64_t kRows = 12;
constexpr int64_t kColumns = 5;

class Renormed : public Network {
 public:
  Renormed() {
    const auto options = torch::nn::EmbeddingOptions(kRows, kColumns).max_norm(1.0).scale_grad_by_freq(true);
    table_ = register_module("table", torch::nn::Embedding(options));
    head_ = register_module("head", torch::nn::Linear(kColumns, 1));
  }

  torch::Tensor forward(torch::Tensor input) override { return head_->forward(table_->forward(input)).squeeze(-1); }

 private:
  torch::nn::Embedding table_ = nullptr;
  torch::nn::Linear head_ = nullptr;
};

ModelCase RenormedModel() {
  return {.name = "renormed",
          .description = "an embedding whose rows have a largest norm",
          .make_network = [] { return std::make_shared<Renormed>(); },
          .loss = [](torch::Tensor output, torch::Tensor label) { return (output - label).square().mean(); },
          .make_input =
              [](at::Generator generator) {
                return torch::randint(0, kRows, {4, 6}, generator, torch::kLong);
              },
          .make_label =
              [](at::Generator generator) {
                return torch::randn({4, 6}, generator);
              }};
}

double Error(const torch::Tensor& actual, const torch::Tensor& expected) {
  const torch::Tensor a = actual.contiguous(), e = expected.contiguous();
  return ErrorInEps<float>({a.data_ptr<float>(), static_cast<size_t>(a.numel())},
                           {e.data_ptr<float>(), static_cast<size_t>(e.numel())});
}

void ExpectStepsMatchEager(const aot::OptimizerOptions& optimizer) {
  const ModelCase model = RenormedModel();
  aot::OptimizerConfig config;
  config.options = optimizer;
  at::Generator generator = at::detail::createCPUGenerator(kSeed);
  torch::Tensor input = model.make_input(generator), label = model.make_label(generator);
  CompiledTrainerOptions options;
  options.seed = kSeed;
  options.optimizer = config;
  auto compiled = CompiledTrainer::Create(model, input, label, options);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EagerTrainer eager(model, kSeed, config);
  for (int step = 0; step < 3; ++step) {
    const auto loss = (*compiled)->Step(input, label);
    ASSERT_TRUE(loss.ok()) << loss.status();
    EXPECT_NEAR(*loss, eager.Step(input, label), 1e-5);
    input = model.make_input(generator);
    label = model.make_label(generator);
  }
  const auto states = (*compiled)->States();
  ASSERT_TRUE(states.ok()) << states.status();
  for (const std::string name : {"table.weight", "head.weight", "head.bias"}) {
    EXPECT_LE(Error(states->at(name), eager.States().at(name)), kModelDrift) << name;
  }
}

TEST(RenormedEmbeddingTest, SgdStepsMatchEager) { ExpectStepsMatchEager(aot::SgdOptions{.lr = 0.5, .momentum = 0.9}); }

TEST(RenormedEmbeddingTest, AdamStepsMatchEager) { ExpectStepsMatchEager(aot::AdamW()); }

}  // namespace
}  // namespace cotan::testing
