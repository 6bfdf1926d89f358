// SPDX-License-Identifier: Apache-2.0

// The potential that examples/forces trains: an ordinary torch::nn module.
#ifndef COTAN_EXAMPLES_FORCES_MODEL_H_
#define COTAN_EXAMPLES_FORCES_MODEL_H_

#include <torch/torch.h>

#include <vector>

namespace cotan::forces {

// Positions [batch, atoms, 3] to energies [batch] and forces [batch, atoms, 3]. The energy is a sum over pairs of
// atoms; a small network computes that of a pair from its distance. Forces are minus the gradient of the energy,
// computed by torch::autograd::grad inside forward(), so that a loss may contain them.
class PairPotentialImpl : public torch::nn::Module {
 public:
  PairPotentialImpl();
  std::vector<torch::Tensor> forward(const torch::Tensor& positions);

 private:
  torch::Tensor EnergyOf(const torch::Tensor& positions);

  torch::Tensor first_, second_;  // the atoms of each pair
  torch::Tensor centers_;         // distances at which features of a pair are largest
  torch::nn::Linear hidden_, more_, output_;
};
TORCH_MODULE(PairPotential);

}  // namespace cotan::forces

#endif  // COTAN_EXAMPLES_FORCES_MODEL_H_
