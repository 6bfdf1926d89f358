// SPDX-License-Identifier: Apache-2.0

// The model that `cotan_program` compiles: the network, a batch, the loss and how to
// train.
#include <torch/torch.h>

#include <vector>

#include "aot/model_registry.h"
#include "examples/digits/model.h"
#include "examples/digits/sizes.h"

namespace cotan::aot {

std::vector<ModelDefinition> RegisteredModels() {
  using digits::kBatch, digits::kSide;
  ModelDefinition digits;
  digits.name = "digits";
  digits.description = "convolutions with batch norm and dropout that read digits";
  digits.factory = AdaptFactory([] { return digits::DigitsNet(); });
  digits.examples = [] {
    return std::vector<at::Tensor>{torch::randn({kBatch, 1, kSide, kSide}, at::detail::createCPUGenerator(1))};
  };
  digits.options = [] {
    CompileOptions options;
    options.loss.function = [](const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& targets) {
      return torch::nn::functional::cross_entropy(outputs[0], targets[0]);
    };
    options.loss.targets = {torch::arange(kBatch) % digits::kClasses};
    options.dynamic_dims = {{.argument = 0, .dim = 0, .symbol = "batch", .min = 1, .max = kBatch},
                            {.argument = 1, .dim = 0, .symbol = "batch"}};
    AdamOptions adamw = AdamW();
    adamw.lr = 1e-3;
    options.optimizer.emplace().options = adamw;
    options.methods.forward_backward = false;
    options.module.seed = 1;
    return options;
  };
  return {digits};
}

}  // namespace cotan::aot
