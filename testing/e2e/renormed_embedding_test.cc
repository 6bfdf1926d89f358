// SPDX-License-Identifier: Apache-2.0

// Trains an embedding with max_norm, which writes to the rows that are looked up before the optimizer does. Each step
// is compared with LibTorch eager.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>

#include "aot/optimizer/optimizer.h"
#include "testing/e2e/step_comparison.h"
#include "testing/models/models.h"

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

aot::OptimizerConfig Of(const aot::OptimizerOptions& options) {
  aot::OptimizerConfig config;
  config.options = options;
  return config;
}

TEST(RenormedEmbeddingTest, SgdStepsMatchEager) {
  ExpectStepsMatchEager(RenormedModel(), Of(aot::SgdOptions{.lr = 0.5, .momentum = 0.9}), kSeed);
}

TEST(RenormedEmbeddingTest, AdamStepsMatchEager) { ExpectStepsMatchEager(RenormedModel(), Of(aot::AdamW()), kSeed); }

}  // namespace
}  // namespace cotan::testing
