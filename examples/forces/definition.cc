// SPDX-License-Identifier: Apache-2.0

// The model that `cotan_program` compiles: the potential, a batch, the loss of forces and energies, and how to train.
#include <torch/torch.h>

#include <vector>

#include "aot/model_registry.h"
#include "examples/forces/model.h"
#include "examples/forces/sizes.h"

namespace cotan::aot {

std::vector<ModelDefinition> RegisteredModels() {
  using forces::kAtoms, forces::kBatch;
  ModelDefinition forces;
  forces.name = "forces";
  forces.description = "a pair potential, trained with energies and forces";
  forces.factory = AdaptFactory([] { return forces::PairPotential(); });
  forces.examples = [] {
    return std::vector<at::Tensor>{torch::rand({kBatch, kAtoms, 3}, at::detail::createCPUGenerator(1)) * 2.4};
  };
  forces.options = [] {
    CompileOptions options;
    options.loss.function = [](const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& targets) {
      const at::Tensor energy_error = (outputs[0] - targets[0]).pow(2).mean();
      return (outputs[1] - targets[1]).pow(2).mean() + 0.1 * energy_error;
    };
    options.loss.targets = {torch::zeros({kBatch}), torch::zeros({kBatch, kAtoms, 3})};
    AdamOptions adam;
    adam.lr = 2e-3;
    options.optimizer.emplace().options = adam;
    options.methods.forward_backward = false;
    options.module.seed = 1;
    return options;
  };
  return {forces};
}

}  // namespace cotan::aot
