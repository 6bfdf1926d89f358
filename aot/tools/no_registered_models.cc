// SPDX-License-Identifier: Apache-2.0

// Defines RegisteredModels() for a tool that compiles .pt2 archives only.
#include "aot/model_registry.h"

namespace cotan::aot {

std::vector<ModelDefinition> RegisteredModels() { return {}; }

}  // namespace cotan::aot
