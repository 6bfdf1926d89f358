// SPDX-License-Identifier: Apache-2.0

// The models of the benchmark on a GPU: the six small ones of //testing/models, and two whose arithmetic takes most of
// the time on a large GPU. peers.py has the same ones in PyTorch.
#include <torch/torch.h>

#include <memory>
#include <utility>

#include "aot/model_registry.h"
#include "testing/models/models.h"
#include "testing/models/networks.h"

namespace cotan::aot {
namespace {

using testing::ModelCase;

constexpr uint64_t kInputSeed = 1;
constexpr uint64_t kLabelSeed = 2;
constexpr int64_t kImages = 128, kClasses = 10;
constexpr int64_t kSequences = 8, kTokens = 512, kVocabulary = 512;

at::Generator Seeded(uint64_t seed) { return at::detail::createCPUGenerator(seed); }

at::Tensor Ids(int64_t classes, at::IntArrayRef sizes, at::Generator generator) {
  return torch::randint(0, classes, sizes, generator, torch::kInt64);
}

ModelCase Resnet128() {
  ModelCase model = *testing::FindModel("resnet");
  model.name = "resnet128";
  model.description = "resnet with batch 128";
  model.make_input = [](at::Generator generator) { return torch::randn({kImages, 3, 32, 32}, generator); };
  model.make_label = [](at::Generator generator) { return Ids(kClasses, {kImages}, generator); };
  return model;
}

ModelCase Gpt512() {
  ModelCase model = *testing::FindModel("gpt");
  model.name = "gpt512";
  model.description = "gpt with 512 tokens";
  model.make_network = [] {
    testing::TransformerOptions options;
    options.context = kTokens;
    return std::make_shared<testing::Transformer>(options);
  };
  model.make_input = [](at::Generator generator) { return Ids(kVocabulary, {kSequences, kTokens}, generator); };
  model.make_label = [](at::Generator generator) { return Ids(kVocabulary, {kSequences * kTokens}, generator); };
  return model;
}

CompileOptions OptionsFor(const ModelCase& model) {
  CompileOptions options;
  options.loss.function = [loss = model.loss](const std::vector<at::Tensor>& outputs,
                                              const std::vector<at::Tensor>& targets) {
    return loss(outputs[0], targets[0]);
  };
  options.loss.targets = {model.make_label(Seeded(kLabelSeed))};
  options.optimizer = OptimizerConfig{SgdOptions{.lr = 0.01, .momentum = 0.9}, {}, {}, {}};
  return options;
}

}  // namespace

std::vector<ModelDefinition> RegisteredModels() {
  std::vector<ModelCase> models = {Resnet128(), Gpt512()};
  for (const char* const name : {"mlp", "cnn", "gpt", "resnet", "lstm", "gru"}) {
    models.push_back(*testing::FindModel(name));
  }
  std::vector<ModelDefinition> definitions;
  for (const ModelCase& model : models) {
    ModelDefinition& definition = definitions.emplace_back();
    definition.name = model.name;
    definition.description = model.description;
    definition.factory = AdaptFactory(model.make_network);
    definition.examples = [model] { return std::vector<at::Tensor>{model.make_input(Seeded(kInputSeed))}; };
    definition.options = [model] { return OptionsFor(model); };
  }
  return definitions;
}

}  // namespace cotan::aot
