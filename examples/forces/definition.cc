// SPDX-License-Identifier: Apache-2.0

// The models that `cotan_program` compiles: the potential with its loss and how to train, and, for a program that
// computes forces itself, the energy alone and the loss of its gradients.
#include <torch/torch.h>

#include <vector>

#include "aot/model_registry.h"
#include "examples/forces/model.h"
#include "examples/forces/sizes.h"

namespace cotan::aot {
namespace {

using forces::kAtoms, forces::kBatch;

at::Tensor ExamplePositions() { return torch::rand({kBatch, kAtoms, 3}, at::detail::createCPUGenerator(1)) * 2.4; }

ModelDefinition Forces() {
  ModelDefinition model;
  model.name = "forces";
  model.description = "a pair potential, trained with energies and forces";
  model.factory = AdaptFactory([] { return forces::PairPotential(); });
  model.examples = [] { return std::vector<at::Tensor>{ExamplePositions()}; };
  model.options = [] {
    CompileOptions options;
    options.loss.function = [](const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& targets) {
      return forces::ForceLoss(outputs[0], outputs[1], targets[0], targets[1]);
    };
    options.loss.targets = {torch::zeros({kBatch}), torch::zeros({kBatch, kAtoms, 3})};
    AdamOptions adam;
    adam.lr = forces::kLearningRate;
    options.optimizer.emplace().options = adam;
    options.methods.forward_backward = false;
    options.module.seed = 1;
    return options;
  };
  return model;
}

ModelDefinition Energy() {
  ModelDefinition model;
  model.name = "energy";
  model.description = "the energy of the pair potential; its gradient can be differentiated";
  model.factory = AdaptFactory([] { return forces::PairEnergy(); });
  model.examples = [] { return std::vector<at::Tensor>{ExamplePositions().requires_grad_(true)}; };
  model.options = [] {
    CompileOptions options;
    options.order = 2;
    options.methods.eval = false;
    options.module.seed = 1;
    return options;
  };
  return model;
}

ModelDefinition GradientLoss() {
  ModelDefinition model;
  model.name = "gradient_loss";
  model.description = "the loss of energies and of their gradients";
  model.factory = AdaptFactory([] { return forces::GradientLoss(); });
  model.examples = [] {
    const at::Tensor energies = torch::zeros({kBatch}), gradients = torch::zeros({kBatch, kAtoms, 3});
    return std::vector<at::Tensor>{energies.clone().requires_grad_(true), gradients.clone().requires_grad_(true),
                                   energies, gradients};
  };
  model.options = [] {
    CompileOptions options;
    options.methods.eval = false;
    return options;
  };
  return model;
}

}  // namespace

std::vector<ModelDefinition> RegisteredModels() { return {Forces(), Energy(), GradientLoss()}; }

}  // namespace cotan::aot
