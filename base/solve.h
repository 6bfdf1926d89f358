// SPDX-License-Identifier: Apache-2.0

// Solves size expressions for their symbols.
#ifndef COTAN_BASE_SOLVE_H_
#define COTAN_BASE_SOLVE_H_

#include <cstdint>
#include <optional>

#include "base/sym_int.h"

namespace cotan {

// A symbol and its value.
struct SymbolValue {
  int symbol = 0;
  int64_t value = 0;
};

// Returns the symbol of `expression` and the value for which `expression` equals `value`. Returns nullopt
// unless the expression consists of one occurrence of one symbol and sums and products with constants, and
// there is exactly one such value.
std::optional<SymbolValue> SolveForSymbol(const SymInt& expression, int64_t value);

}  // namespace cotan

#endif  // COTAN_BASE_SOLVE_H_
