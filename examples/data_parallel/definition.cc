// SPDX-License-Identifier: Apache-2.0

// The network of examples/digits for several ranks: each computes with a part of the batch.
#include <torch/torch.h>

#include <vector>

#include "aot/model_registry.h"
#include "examples/data_parallel/sizes.h"
#include "examples/digits/model.h"
#include "examples/digits/sizes.h"

namespace cotan::aot {

std::vector<ModelDefinition> RegisteredModels() {
  using data_parallel::kRankBatch, digits::kSide;
  ModelDefinition model;
  model.name = "digits_parallel";
  model.description = "convolutions that read digits, trained by several ranks";
  model.factory = AdaptFactory([] { return digits::DigitsNet(); });
  model.examples = [] {
    return std::vector<at::Tensor>{torch::randn({kRankBatch, 1, kSide, kSide}, at::detail::createCPUGenerator(1))};
  };
  model.options = [] {
    CompileOptions options;
    options.loss.function = [](const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& targets) {
      return torch::nn::functional::cross_entropy(outputs[0], targets[0]);
    };
    options.loss.targets = {torch::arange(kRankBatch) % digits::kClasses};
    AdamOptions adamw = AdamW();
    adamw.lr = 1e-3;
    options.optimizer.emplace().options = adamw;
    options.data_parallel = DataParallelOptions{.bucket_bytes = 128 << 10, .sync_batch_norm = true};
    options.methods.forward_backward = false;
    options.module.seed = 1;
    return options;
  };
  return {model};
}

}  // namespace cotan::aot
