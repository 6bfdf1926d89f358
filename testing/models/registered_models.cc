// SPDX-License-Identifier: Apache-2.0

// Registers the models of models.h with the compile tool.
#include "aot/model_registry.h"
#include "testing/models/models.h"

namespace cotan::aot {
namespace {

using testing::ModelCase;

constexpr uint64_t kInputSeed = 1;
constexpr uint64_t kLabelSeed = 2;

at::Generator Seeded(uint64_t seed) { return at::detail::createCPUGenerator(seed); }

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
  std::vector<ModelDefinition> definitions;
  for (const ModelCase& model : testing::AllModels()) {
    ModelDefinition& definition = definitions.emplace_back();
    definition.name = model.name;
    definition.description = model.description;
    definition.factory = AdaptFactory(model.make_network);
    definition.examples = [&model] { return std::vector<at::Tensor>{model.make_input(Seeded(kInputSeed))}; };
    definition.options = [&model] { return OptionsFor(model); };
  }
  return definitions;
}

}  // namespace cotan::aot
