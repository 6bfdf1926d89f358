// SPDX-License-Identifier: Apache-2.0

// The model that `cotan_program` compiles: the network, a batch, the loss and how to
// train.
#include <torch/torch.h>

#include <vector>

#include "aot/model_registry.h"
#include "examples/chars/model.h"
#include "examples/chars/sizes.h"

namespace cotan::aot {

std::vector<ModelDefinition> RegisteredModels() {
  using chars::kBatch, chars::kContext, chars::kVocabulary;
  ModelDefinition chars;
  chars.name = "chars";
  chars.description = "a small transformer that predicts the next byte of a text";
  chars.factory = AdaptFactory([] { return chars::CharsNet(); });
  chars.examples = [] {
    return std::vector<at::Tensor>{torch::arange(kBatch * kContext).view({kBatch, kContext}) % kVocabulary};
  };
  chars.options = [] {
    CompileOptions options;
    options.loss.function = [](const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& targets) {
      return torch::nn::functional::cross_entropy(outputs[0], targets[0]);
    };
    options.loss.targets = {torch::arange(1, kBatch * kContext + 1) % kVocabulary};
    AdamOptions adamw = AdamW();
    adamw.lr = 3e-3;
    options.optimizer.emplace().options = adamw;
    options.optimizer->clip_norm = 1.0;
    options.methods.forward_backward = false;
    options.module.seed = 1;
    return options;
  };
  return {chars};
}

}  // namespace cotan::aot
