// SPDX-License-Identifier: Apache-2.0

// A small network that assigns points of the plane to the two arms of a spiral, and how to train it.
#include <torch/torch.h>

#include <vector>

#include "aot/model_registry.h"
#include "sizes.h"

namespace cotan::aot {

namespace nn = torch::nn;

std::vector<ModelDefinition> RegisteredModels() {
  ModelDefinition spirals;
  spirals.name = "spirals";
  spirals.description = "a network of three linear layers that separates two spiral arms";
  spirals.factory = AdaptFactory([] {
    return nn::Sequential(nn::Linear(2, 64), nn::Tanh(), nn::Linear(64, 64), nn::Tanh(),
                          nn::Linear(64, consumer::kClasses));
  });
  spirals.examples = [] {
    return std::vector<at::Tensor>{torch::randn({consumer::kBatch, 2}, at::detail::createCPUGenerator(1))};
  };
  spirals.options = [] {
    CompileOptions options;
    options.loss.function = [](const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& targets) {
      return nn::functional::cross_entropy(outputs[0], targets[0]);
    };
    options.loss.targets = {torch::arange(consumer::kBatch) % consumer::kClasses};
    AdamOptions adamw = AdamW();
    adamw.lr = 1e-2;
    options.optimizer.emplace().options = adamw;
    options.methods.forward_backward = false;
    options.module.seed = 1;
    return options;
  };
  return {spirals};
}

}  // namespace cotan::aot
