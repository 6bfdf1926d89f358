// SPDX-License-Identifier: Apache-2.0

// A network for digits without random numbers, whose program accumulates gradients and limits them.
#include <torch/torch.h>

#include <vector>

#include "aot/model_registry.h"

namespace cotan::aot {

std::vector<ModelDefinition> RegisteredModels() {
  constexpr int64_t kBatch = 64, kSide = 28;
  ModelDefinition model;
  model.name = "clipped";
  model.description = "two linear layers that read digits";
  model.factory = AdaptFactory([] {
    using torch::nn::Flatten, torch::nn::Linear, torch::nn::ReLU;
    return torch::nn::Sequential(Flatten(), Linear(kSide * kSide, 32), ReLU(), Linear(32, 10));
  });
  model.examples = [] { return std::vector<at::Tensor>{torch::zeros({kBatch, 1, kSide, kSide})}; };
  model.options = [] {
    CompileOptions options;
    options.loss.function = [](const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& targets) {
      return torch::nn::functional::cross_entropy(outputs[0], targets[0]);
    };
    options.loss.targets = {torch::arange(kBatch) % 10};
    options.dynamic_dims = {{.argument = 0, .dim = 0, .symbol = "batch", .min = 1, .max = kBatch},
                            {.argument = 1, .dim = 0, .symbol = "batch"}};
    OptimizerConfig optimizer = {.options = SgdOptions{}};
    // The groups cover all parameters, so that none is left for the default group.
    optimizer.groups = {{{"*bias"}, SgdOptions{.lr = 0.1, .momentum = 0.9}},
                        {{"1.weight"}, SgdOptions{.lr = 0.05, .momentum = 0.9}},
                        {{"3.weight"}, SgdOptions{.lr = 0.05, .momentum = 0.9}}};
    optimizer.clip_norm = 100;
    optimizer.clip_value = 100;
    options.optimizer = optimizer;
    options.methods.accumulate = true;
    options.methods.forward_backward = false;
    options.module.seed = 1;
    return options;
  };
  return {model};
}

}  // namespace cotan::aot
