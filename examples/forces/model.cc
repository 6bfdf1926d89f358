// SPDX-License-Identifier: Apache-2.0

#include "examples/forces/model.h"

#include "examples/forces/sizes.h"

namespace cotan::forces {
namespace {

namespace nn = torch::nn;

constexpr int64_t kFeatures = 24;
constexpr int64_t kHidden = 32;
constexpr double kNearest = 0.9, kFarthest = 4.2;  // of the centers
constexpr double kSharpness = 20;

// Returns the first (0) or the second (1) atoms of all pairs.
torch::Tensor AtomsOfPairs(int64_t which) { return torch::triu_indices(kAtoms, kAtoms, /*offset=*/1)[which].clone(); }

// Returns the distances at which features are largest.
torch::Tensor Centers() {
  return torch::arange(kFeatures).to(torch::kFloat) * ((kFarthest - kNearest) / (kFeatures - 1)) + kNearest;
}

}  // namespace

PairEnergyImpl::PairEnergyImpl()
    : first_(register_buffer("first", AtomsOfPairs(0))),
      second_(register_buffer("second", AtomsOfPairs(1))),
      centers_(register_buffer("centers", Centers())),
      hidden_(register_module("hidden", nn::Linear(kFeatures, kHidden))),
      more_(register_module("more", nn::Linear(kHidden, kHidden))),
      output_(register_module("output", nn::Linear(kHidden, 1))) {}

torch::Tensor PairEnergyImpl::forward(const torch::Tensor& positions) {
  const torch::Tensor between = positions.index_select(1, first_) - positions.index_select(1, second_);
  const torch::Tensor distance = between.pow(2).sum(-1).sqrt();  // [batch, pairs]
  const torch::Tensor features = torch::exp(-kSharpness * (distance.unsqueeze(-1) - centers_).pow(2));
  const torch::Tensor hidden = torch::tanh(more_(torch::tanh(hidden_(features))));
  return output_(hidden).flatten(1).sum(1);
}

std::vector<torch::Tensor> PairPotentialImpl::forward(const torch::Tensor& positions) {
  const torch::AutoGradMode gradients(true);  // also in evaluation
  const torch::Tensor x = positions.detach().requires_grad_(true);
  const torch::Tensor energy = PairEnergyImpl::forward(x);
  const torch::Tensor gradient =
      torch::autograd::grad({energy.sum()}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
  return {energy, -gradient};
}

torch::Tensor ForceLoss(const torch::Tensor& energies, const torch::Tensor& forces, const torch::Tensor& true_energies,
                        const torch::Tensor& true_forces) {
  const torch::Tensor energy_error = (energies - true_energies).pow(2).mean();
  return (forces - true_forces).pow(2).mean() + 0.1 * energy_error;
}

torch::Tensor GradientLossImpl::forward(const torch::Tensor& energies, const torch::Tensor& gradients,
                                        const torch::Tensor& true_energies, const torch::Tensor& true_forces) {
  return ForceLoss(energies, -gradients, true_energies, true_forces);
}

}  // namespace cotan::forces
