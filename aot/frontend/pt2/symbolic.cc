// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/pt2/symbolic.h"

#include <cctype>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace cotan::aot::pt2 {
namespace {

using Kind = SymInt::Kind;

constexpr int kMaxDepth = 64;
constexpr int64_t kMaxPower = 8;
// Expressions are evaluated and printed recursively, as trees. Powers repeat their base.
constexpr int kMaxOperands = 2000;  // of the text
constexpr int kMaxNodes = 10'000;   // of the tree

SymInt FloorDiv(const SymInt& a, const SymInt& b) { return SymInt::Binary(Kind::kFloorDiv, a, b); }
SymInt Mod(const SymInt& a, const SymInt& b) { return SymInt::Binary(Kind::kMod, a, b); }

// Returns the number of nodes of an expression as a tree, `limit` if there are more.
int CountNodes(const SymInt& value, int limit) {
  if (limit <= 1 || value.is_constant() || value.kind() == Kind::kSymbol) return 1;
  const int left = CountNodes(value.lhs(), limit - 1);
  if (left >= limit - 1) return limit;
  return 1 + left + CountNodes(value.rhs(), limit - 1 - left);
}

//   expression := term (('+' | '-') term)*
//   term       := power (('*' | '//' | '%') power)*
//   power      := operand ('**' operand)?
//   operand    := '-' operand | integer | '(' expression ')' | name | function '(' expression, ... ')'
class Parser {
 public:
  Parser(absl::string_view text, absl::FunctionRef<int(absl::string_view)> symbol_index)
      : text_(text), symbol_index_(symbol_index) {}

  absl::StatusOr<SymInt> Parse() {
    COTAN_ASSIGN_OR_RETURN(SymInt result, Expression());
    SkipSpace();
    if (position_ != text_.size()) return Unexpected();
    if (CountNodes(result, kMaxNodes) >= kMaxNodes) return TooLarge();
    return result;
  }

 private:
  absl::Status Unexpected() const {
    return absl::InvalidArgumentError(
        absl::StrCat("the size expression '", text_, "' is not understood from character ", position_, " on"));
  }
  absl::Status TooLarge() const {
    return absl::UnimplementedError(absl::StrCat("the size expression '", text_.substr(0, 100), "...' has more than ",
                                                 kMaxOperands, " operands, or more than ", kMaxNodes,
                                                 " operations and operands when powers are written as products"));
  }

  absl::Status NotAnInteger() const {
    return absl::UnimplementedError(
        absl::StrCat("the size expression '", text_, "' has a number that is not an integer"));
  }

  void SkipSpace() {
    while (position_ < text_.size() && absl::ascii_isspace(static_cast<unsigned char>(text_[position_]))) ++position_;
  }
  bool Accept(absl::string_view token) {
    SkipSpace();
    if (!absl::StartsWith(text_.substr(position_), token)) return false;
    position_ += token.size();
    return true;
  }

  absl::StatusOr<SymInt> Expression() {
    if (++depth_ > kMaxDepth) return Unexpected();
    COTAN_ASSIGN_OR_RETURN(SymInt sum, Term());
    for (;;) {
      if (Accept("+")) {
        COTAN_ASSIGN_OR_RETURN(const SymInt next, Term());
        sum = sum + next;
      } else if (Accept("-")) {
        COTAN_ASSIGN_OR_RETURN(const SymInt next, Term());
        sum = sum - next;
      } else {
        --depth_;
        return sum;
      }
    }
  }

  absl::StatusOr<SymInt> Term() {
    COTAN_ASSIGN_OR_RETURN(SymInt product, Power());
    for (;;) {
      if (Accept("//")) {
        COTAN_ASSIGN_OR_RETURN(const SymInt next, Power());
        product = FloorDiv(product, next);
      } else if (Accept("*")) {
        COTAN_ASSIGN_OR_RETURN(const SymInt next, Power());
        product = product * next;
      } else if (Accept("%")) {
        COTAN_ASSIGN_OR_RETURN(const SymInt next, Power());
        product = Mod(product, next);
      } else {
        return product;
      }
    }
  }

  absl::StatusOr<SymInt> Power() {
    COTAN_ASSIGN_OR_RETURN(const SymInt base, Operand());
    if (!Accept("**")) return base;
    COTAN_ASSIGN_OR_RETURN(const SymInt exponent, Operand());
    return PowerOf(base, exponent);
  }

  absl::StatusOr<SymInt> PowerOf(const SymInt& base, const SymInt& exponent) {
    if (!exponent.is_constant() || exponent.constant() < 0 || exponent.constant() > kMaxPower) {
      return absl::UnimplementedError(
          absl::StrCat("the size expression '", text_, "' has a power other than 0 to ", kMaxPower));
    }
    SymInt result = 1;
    for (int64_t i = 0; i < exponent.constant(); ++i) result = result * base;
    return result;
  }

  absl::StatusOr<SymInt> Operand() {
    SkipSpace();
    if (position_ == text_.size() || ++depth_ > kMaxDepth) return Unexpected();
    if (++operands_ > kMaxOperands) return TooLarge();
    absl::StatusOr<SymInt> result = OperandAt(text_[position_]);
    --depth_;
    return result;
  }

  absl::StatusOr<SymInt> OperandAt(char first) {
    if (Accept("-")) {
      COTAN_ASSIGN_OR_RETURN(const SymInt negated, Operand());
      return negated * SymInt(-1);
    }
    if (Accept("(")) {
      COTAN_ASSIGN_OR_RETURN(SymInt inner, Expression());
      if (!Accept(")")) return Unexpected();
      return inner;
    }
    if (absl::ascii_isdigit(static_cast<unsigned char>(first))) return Integer();
    const absl::string_view name = Identifier();
    if (name.empty()) return Unexpected();
    if (!Accept("(")) return SymInt::Symbol(symbol_index_(name));
    if (name == "Symbol") return SymbolCall();
    if (name == "Float") return NotAnInteger();
    return Function(name);
  }

  absl::StatusOr<SymInt> Integer() {
    const size_t start = position_;
    while (position_ < text_.size() && absl::ascii_isdigit(static_cast<unsigned char>(text_[position_]))) ++position_;
    if (position_ < text_.size() && text_[position_] == '.') return NotAnInteger();
    int64_t value = 0;
    if (!absl::SimpleAtoi(text_.substr(start, position_ - start), &value)) return Unexpected();
    return SymInt(value);
  }

  absl::string_view Identifier() {
    const size_t start = position_;
    while (position_ < text_.size() &&
           (absl::ascii_isalnum(static_cast<unsigned char>(text_[position_])) || text_[position_] == '_')) {
      ++position_;
    }
    return text_.substr(start, position_ - start);
  }

  // Parses after "Symbol(": a quoted name, and assumptions, which are ignored.
  absl::StatusOr<SymInt> SymbolCall() {
    if (!Accept("'")) return Unexpected();
    const absl::string_view name = Identifier();
    if (name.empty() || !Accept("'")) return Unexpected();
    while (Accept(",")) {
      SkipSpace();
      if (Identifier().empty() || !Accept("=")) return Unexpected();
      SkipSpace();
      if (Identifier().empty()) return Unexpected();
    }
    if (!Accept(")")) return Unexpected();
    return SymInt::Symbol(symbol_index_(name));
  }

  absl::StatusOr<SymInt> Function(absl::string_view name) {
    std::vector<SymInt> arguments;
    do {
      COTAN_ASSIGN_OR_RETURN(SymInt argument, Expression());
      arguments.push_back(std::move(argument));
    } while (Accept(","));
    if (!Accept(")")) return Unexpected();
    return Apply(name, arguments);
  }

  absl::StatusOr<SymInt> Apply(absl::string_view name, const std::vector<SymInt>& a) {
    if (name == "Add") return Fold(Kind::kAdd, a);
    if (name == "Mul") return Fold(Kind::kMul, a);
    if (name == "Max") return Fold(Kind::kMax, a);
    if (name == "Min") return Fold(Kind::kMin, a);
    if (a.size() == 1 && (name == "Integer" || name == "Identity")) return a[0];
    if (a.size() == 2) {
      if (name == "FloorDiv" || name == "CleanDiv") return FloorDiv(a[0], a[1]);
      if (name == "CeilDiv") return FloorDiv(a[0] + a[1] + SymInt(-1), a[1]);
      if (name == "Mod" || name == "PythonMod") return Mod(a[0], a[1]);
      if (name == "Pow" || name == "PowByNatural") return PowerOf(a[0], a[1]);
    }
    if (a.size() == 3 && name == "ModularIndexing") return Mod(FloorDiv(a[0], a[1]), a[2]);
    return absl::UnimplementedError(
        absl::StrCat("the size expression '", text_, "' has the function ", name, " of ", a.size(), " arguments"));
  }

  SymInt Fold(Kind kind, const std::vector<SymInt>& arguments) {
    SymInt result = arguments[0];
    for (size_t i = 1; i < arguments.size(); ++i) result = SymInt::Binary(kind, result, arguments[i]);
    return result;
  }

  absl::string_view text_;
  absl::FunctionRef<int(absl::string_view)> symbol_index_;
  size_t position_ = 0;
  int depth_ = 0;
  int operands_ = 0;
};

}  // namespace

absl::StatusOr<SymInt> ParseSymbolic(absl::string_view text,
                                     absl::FunctionRef<int(absl::string_view name)> symbol_index) {
  return Parser(text, symbol_index).Parse();
}

}  // namespace cotan::aot::pt2
