// The models that a compile tool can compile.
#ifndef COTAN_AOT_MODEL_REGISTRY_H_
#define COTAN_AOT_MODEL_REGISTRY_H_

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "aot/compile.h"
#include "aot/frontend/callable.h"

namespace cotan::aot {

// A model with what compiling it needs. Nothing is computed before the
// functions are called.
struct ModelDefinition {
  std::string name;
  std::string description;  // one line, for --list
  ModuleFactory factory;    // AdaptFactory([] { return Net(); })
  std::function<std::vector<at::Tensor>()> examples;
  // Defaults; flags of the tool override them.
  std::function<CompileOptions()> options;
};

// Defined once by the library of models that is linked with the tool
// (cotan_program() in defs.bzl); names are unique.
std::vector<ModelDefinition> RegisteredModels();

}  // namespace cotan::aot

#endif  // COTAN_AOT_MODEL_REGISTRY_H_
