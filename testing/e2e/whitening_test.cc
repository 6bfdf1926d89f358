// SPDX-License-Identifier: Apache-2.0

// Trains a network whose loss whitens its features by an eigendecomposition and fits a head by a solve, both of 64 x 64
// matrices, which the runtime's op computes. Each step is compared with LibTorch eager.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <tuple>

#include "aot/optimizer/optimizer.h"
#include "testing/e2e/step_comparison.h"
#include "testing/models/models.h"

namespace cotan::testing {
namespace {

constexpr uint64_t kSeed = 31;
constexpr int64_t kFeatures = 64;
constexpr int64_t kBatch = 256;

// A layer, then features that have the identity as their covariance.
class Whitened : public Network {
 public:
  Whitened() { layer_ = register_module("layer", torch::nn::Linear(kFeatures, kFeatures)); }

  torch::Tensor forward(torch::Tensor input) override {
    const torch::Tensor x = torch::tanh(layer_->forward(input));
    const torch::Tensor centered = x - x.mean(0, true);
    const torch::Tensor covariance = centered.mT().matmul(centered) / static_cast<double>(kBatch);
    const auto [values, vectors] =
        torch::linalg_eigh(covariance + 0.1 * torch::diag(torch::arange(1, kFeatures + 1, torch::kFloat32)));
    return centered.matmul(vectors * values.rsqrt().unsqueeze(0)).matmul(vectors.mT());
  }

 private:
  torch::nn::Linear layer_ = nullptr;
};

// Returns what is left of the labels after ridge regression on the features.
torch::Tensor RidgeLoss(torch::Tensor features, torch::Tensor label) {
  const torch::Tensor gram = features.mT().matmul(features) / static_cast<double>(kBatch) + torch::eye(kFeatures);
  const torch::Tensor head = torch::linalg_solve(gram, features.mT().matmul(label) / static_cast<double>(kBatch));
  return (features.matmul(head) - label).square().mean();
}

ModelCase WhitenedModel() {
  return {.name = "whitened",
          .description = "whitened features and a fitted head",
          .make_network = [] { return std::make_shared<Whitened>(); },
          .loss = RidgeLoss,
          .make_input =
              [](at::Generator generator) {
                return torch::randn({kBatch, kFeatures}, generator);
              },
          .make_label =
              [](at::Generator generator) {
                return torch::randn({kBatch, 4}, generator);
              }};
}

TEST(WhiteningTest, StepsMatchEager) {
  aot::OptimizerConfig sgd;
  sgd.options = aot::SgdOptions{.lr = 0.1, .momentum = 0.9};
  ExpectStepsMatchEager(WhitenedModel(), sgd, kSeed);
}

}  // namespace
}  // namespace cotan::testing
