// SPDX-License-Identifier: Apache-2.0

// Declares the models that a compile tool can compile.
#ifndef COTAN_AOT_MODEL_REGISTRY_H_
#define COTAN_AOT_MODEL_REGISTRY_H_

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "aot/compile.h"
#include "aot/frontend/callable.h"

namespace cotan::aot {

// A model, its examples and its default options. Nothing is computed before the functions are
// called.
struct ModelDefinition {
  std::string name;
  std::string description;  // one line, for --list
  ModuleFactory factory;    // AdaptFactory([] { return Net(); })
  // Returns one real CPU tensor for each input.
  std::function<std::vector<at::Tensor>()> examples;
  // Returns the default options; flags of the tool override them.
  std::function<CompileOptions()> options;
};

// Returns all models; names are unique. Defined by the library of models that is linked with the
// tool (cotan_program() in defs.bzl).
std::vector<ModelDefinition> RegisteredModels();

}  // namespace cotan::aot

#endif  // COTAN_AOT_MODEL_REGISTRY_H_
