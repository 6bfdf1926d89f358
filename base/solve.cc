// SPDX-License-Identifier: Apache-2.0

#include "base/solve.h"

namespace cotan {

std::optional<SymbolValue> SolveForSymbol(const SymInt& expression, int64_t value) {
  if (expression.is_constant()) return std::nullopt;
  if (expression.kind() == SymInt::Kind::kSymbol) return SymbolValue{expression.symbol(), value};
  const bool left = expression.lhs().is_constant();
  const SymInt& inner = left ? expression.rhs() : expression.lhs();
  const SymInt& other = left ? expression.lhs() : expression.rhs();
  if (!other.is_constant()) return std::nullopt;
  const int64_t constant = other.constant();
  if (expression.kind() == SymInt::Kind::kAdd) {
    int64_t rest = 0;
    if (__builtin_sub_overflow(value, constant, &rest)) return std::nullopt;
    return SolveForSymbol(inner, rest);
  }
  if (expression.kind() != SymInt::Kind::kMul || constant <= 0 || value % constant != 0) return std::nullopt;
  return SolveForSymbol(inner, value / constant);
}

}  // namespace cotan
