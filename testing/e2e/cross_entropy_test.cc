// SPDX-License-Identifier: Apache-2.0

// Trains classifiers with few and with many classes under cross entropy, and compares each step with LibTorch eager.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>

#include "aot/optimizer/optimizer.h"
#include "testing/e2e/step_comparison.h"
#include "testing/models/models.h"

namespace cotan::testing {
namespace {

namespace F = torch::nn::functional;

constexpr uint64_t kSeed = 11;
constexpr int64_t kColumns = 12;
constexpr int64_t kBatch = 7;
constexpr int64_t kIgnored = 3;

class Classifier : public Network {
 public:
  explicit Classifier(int64_t classes) { layer = register_module("layer", torch::nn::Linear(kColumns, classes)); }

  // Logits of tens, so that most probabilities are small.
  torch::Tensor forward(torch::Tensor input) override { return 10 * layer(input); }

  torch::nn::Linear layer = nullptr;
};

void ExpectMatch(int64_t classes, const F::CrossEntropyFuncOptions& options) {
  SCOPED_TRACE(std::to_string(classes) + " classes");
  const ModelCase model = {
      .name = "classifier",
      .description = "a layer under cross entropy",
      .make_network = [classes] { return std::make_shared<Classifier>(classes); },
      .loss = [options](torch::Tensor output, torch::Tensor label) { return F::cross_entropy(output, label, options); },
      .make_input =
          [](at::Generator generator) {
            return torch::randn({kBatch, kColumns}, generator);
          },
      .make_label =
          [classes](at::Generator generator) {
            torch::Tensor label = torch::randint(0, classes, {kBatch}, generator, torch::kLong);
            label[0] = classes - 1;
            label[1] = 0;
            label[2] = kIgnored;
            return label;
          }};
  aot::OptimizerConfig config;
  config.options = aot::SgdOptions{.lr = 0.1, .momentum = 0.9};
  ExpectStepsMatchEager(model, config, kSeed);
}

class CrossEntropyTest : public ::testing::TestWithParam<int64_t> {};

TEST_P(CrossEntropyTest, MatchesEager) { ExpectMatch(GetParam(), {}); }

TEST_P(CrossEntropyTest, WithAnIgnoredClassMatchesEager) {
  ExpectMatch(GetParam(), F::CrossEntropyFuncOptions().ignore_index(kIgnored));
}

TEST_P(CrossEntropyTest, WithWeightsOfClassesMatchesEager) {
  const torch::Tensor weights = torch::linspace(0.5, 2, GetParam());
  ExpectMatch(GetParam(), F::CrossEntropyFuncOptions().weight(weights).ignore_index(kIgnored));
}

TEST_P(CrossEntropyTest, WithSmoothLabelsMatchesEager) {
  ExpectMatch(GetParam(), F::CrossEntropyFuncOptions().label_smoothing(0.1).ignore_index(kIgnored));
}

INSTANTIATE_TEST_SUITE_P(Classes, CrossEntropyTest, ::testing::Values(9, 600, 2051));

}  // namespace
}  // namespace cotan::testing
