// Size expressions solved for their symbols.
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

// The value that a symbol must have for `expression` to be `value`, if the
// expression is made of one occurrence of one symbol, sums and products with
// constants, and there is one such value; else none.
std::optional<SymbolValue> SolveForSymbol(const SymInt& expression, int64_t value);

}  // namespace cotan

#endif  // COTAN_BASE_SOLVE_H_
