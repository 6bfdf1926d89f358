// SPDX-License-Identifier: Apache-2.0

// Symbolic sizes: integers that may depend on the dynamic dimensions of a program (c10::SymInt).
#ifndef COTAN_BASE_SYM_INT_H_
#define COTAN_BASE_SYM_INT_H_

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace cotan {

// An immutable value: a constant, or an expression over symbols s0, s1, ... Copies share the expression.
// Arithmetic on constants is folded; Evaluate() reports overflow. Thread-safe.
class SymInt {
 public:
  enum class Kind : uint8_t { kConstant, kSymbol, kAdd, kMul, kFloorDiv, kMod, kMax, kMin };

  SymInt(int64_t value = 0) : value_(value) {}  // NOLINT: implicit by intent
  static SymInt Symbol(int index);
  // `kind` is one of kAdd ... kMin.
  static SymInt Binary(Kind kind, const SymInt& lhs, const SymInt& rhs);

  // Parses the text form of ToString(): "12", "s0", "(s0 * 4)", "(s0 // 2)", "(s0 % 2)", "max(s0, 1)", "min(s0, 1)".
  // InvalidArgument: malformed text; the message has the position of the first unexpected character.
  static absl::StatusOr<SymInt> Parse(absl::string_view text);

  Kind kind() const { return node_ == nullptr ? Kind::kConstant : KindOfNode(); }
  bool is_constant() const { return node_ == nullptr; }
  int64_t constant() const { return value_; }              // if kConstant
  int symbol() const { return static_cast<int>(value_); }  // if kSymbol
  const SymInt& lhs() const;                               // if kAdd ... kMin
  const SymInt& rhs() const;                               // if kAdd ... kMin

  // Returns the value for symbol i = symbols[i]. InvalidArgument: a symbol without a value, or division by
  // zero. OutOfRange: int64 overflow.
  absl::StatusOr<int64_t> Evaluate(absl::Span<const int64_t> symbols) const;

  std::string ToString() const;

  // Structural equality: (s0 + 1) differs from (1 + s0).
  friend bool operator==(const SymInt& a, const SymInt& b);

  friend SymInt operator+(const SymInt& a, const SymInt& b) { return Binary(Kind::kAdd, a, b); }
  friend SymInt operator*(const SymInt& a, const SymInt& b) { return Binary(Kind::kMul, a, b); }
  friend SymInt operator-(const SymInt& a, const SymInt& b) { return a + b * SymInt(-1); }

 private:
  struct Node;
  Kind KindOfNode() const;

  int64_t value_ = 0;                 // the constant, or the symbol's index
  std::shared_ptr<const Node> node_;  // null for a constant
};

using SymIntVector = absl::InlinedVector<SymInt, 4>;

inline std::ostream& operator<<(std::ostream& os, const SymInt& value) { return os << value.ToString(); }

}  // namespace cotan

#endif  // COTAN_BASE_SYM_INT_H_
