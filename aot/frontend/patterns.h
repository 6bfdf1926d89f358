// SPDX-License-Identifier: Apache-2.0

// Patterns of names: '*' is any text, '?' any character.
#ifndef COTAN_AOT_FRONTEND_PATTERNS_H_
#define COTAN_AOT_FRONTEND_PATTERNS_H_

#include <string>

#include "aot/capture/traced_function.h"

namespace cotan::aot {

// Returns whether the pattern matches the name.
bool Matches(const std::string& pattern, const std::string& name);

// Returns whether the pattern matches a name of the state.
bool Matches(const std::string& pattern, const ModuleState& state);

}  // namespace cotan::aot

#endif  // COTAN_AOT_FRONTEND_PATTERNS_H_
