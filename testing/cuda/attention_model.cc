// SPDX-License-Identifier: Apache-2.0

// A transformer of one layer whose attention a program for CUDA has as one op.
#include <torch/torch.h>

#include <memory>

#include "aot/model_registry.h"
#include "testing/models/networks.h"

namespace cotan::aot {
namespace {

constexpr int64_t kVocabulary = 32, kSequences = 2, kTokens = 128;

at::Tensor Ids(at::IntArrayRef sizes, uint64_t seed) {
  return torch::randint(0, kVocabulary, sizes, at::detail::createCPUGenerator(seed), torch::kInt64);
}

std::shared_ptr<testing::Network> MakeNetwork() {
  testing::TransformerOptions options;
  options.vocabulary = kVocabulary;
  options.width = 32;
  options.heads = 2;
  options.layers = 1;
  options.context = kTokens;
  return std::make_shared<testing::Transformer>(options);
}

CompileOptions Options() {
  CompileOptions options;
  options.loss.function = [](const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& targets) {
    return torch::nn::functional::cross_entropy(outputs[0], targets[0]);
  };
  options.loss.targets = {Ids({kSequences * kTokens}, 2)};
  options.optimizer = OptimizerConfig{SgdOptions{.lr = 0.05, .momentum = 0.9}, {}, {}, {}};
  return options;
}

}  // namespace

std::vector<ModelDefinition> RegisteredModels() {
  ModelDefinition definition;
  definition.name = "attention";
  definition.description = "one layer with causal attention over 128 tokens";
  definition.factory = AdaptFactory(MakeNetwork);
  definition.examples = [] { return std::vector<at::Tensor>{Ids({kSequences, kTokens}, 1)}; };
  definition.options = Options;
  return {definition};
}

}  // namespace cotan::aot
