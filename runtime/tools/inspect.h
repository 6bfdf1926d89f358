// SPDX-License-Identifier: Apache-2.0

// `cotan inspect`: describes the contents of an artifact.
#ifndef COTAN_RUNTIME_TOOLS_INSPECT_H_
#define COTAN_RUNTIME_TOOLS_INSPECT_H_

#include <string>

#include "runtime/execution/program.h"

namespace cotan::tools {

// Returns a description of the file, its dynamic dimensions and states, and of each method its signature,
// ops, effects and ViewAndMutationMeta; with `with_program` also its ops as text.
std::string InspectText(const Program& program, bool with_program);

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_INSPECT_H_
