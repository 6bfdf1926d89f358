// SPDX-License-Identifier: Apache-2.0

// The potential that examples/forces trains, with and without its forces: ordinary torch::nn modules.
#ifndef COTAN_EXAMPLES_FORCES_MODEL_H_
#define COTAN_EXAMPLES_FORCES_MODEL_H_

#include <torch/torch.h>

#include <vector>

namespace cotan::forces {

// Positions [batch, atoms, 3] to energies [batch]: sums over pairs of atoms; a small network computes the energy of a
// pair from its distance.
class PairEnergyImpl : public torch::nn::Module {
 public:
  PairEnergyImpl();
  torch::Tensor forward(const torch::Tensor& positions);

 private:
  torch::Tensor first_, second_;  // the atoms of each pair
  torch::Tensor centers_;         // distances at which features of a pair are largest
  torch::nn::Linear hidden_, more_, output_;
};
TORCH_MODULE(PairEnergy);

// Positions to energies and forces [batch, atoms, 3]. Forces are minus the gradient of the energy, computed by
// torch::autograd::grad inside forward(), so that a loss may contain them.
class PairPotentialImpl : public PairEnergyImpl {
 public:
  std::vector<torch::Tensor> forward(const torch::Tensor& positions);
};
TORCH_MODULE(PairPotential);

// Returns the loss of energies and forces.
torch::Tensor ForceLoss(const torch::Tensor& energies, const torch::Tensor& forces, const torch::Tensor& true_energies,
                        const torch::Tensor& true_forces);

// The same loss, given the gradients of the energies, which are minus the forces.
struct GradientLossImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& energies, const torch::Tensor& gradients,
                        const torch::Tensor& true_energies, const torch::Tensor& true_forces);
};
TORCH_MODULE(GradientLoss);

}  // namespace cotan::forces

#endif  // COTAN_EXAMPLES_FORCES_MODEL_H_
