// SPDX-License-Identifier: Apache-2.0

#include "base/sym_int.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace cotan {

struct SymInt::Node {
  Kind kind;
  SymInt lhs;
  SymInt rhs;
};

namespace {

// Python's // and %: the quotient rounds down, the remainder has the sign of
// the divisor.
int64_t FloorDiv(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return quotient - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

absl::StatusOr<int64_t> Apply(SymInt::Kind kind, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (kind) {
    case SymInt::Kind::kAdd:
      if (__builtin_add_overflow(a, b, &result)) break;
      return result;
    case SymInt::Kind::kMul:
      if (__builtin_mul_overflow(a, b, &result)) break;
      return result;
    case SymInt::Kind::kFloorDiv:
    case SymInt::Kind::kMod:
      if (b == 0) return absl::InvalidArgumentError("a size expression divides by zero");
      if (b == -1) {
        if (kind == SymInt::Kind::kMod) return 0;
        if (__builtin_mul_overflow(a, b, &result)) break;
        return result;
      }
      result = FloorDiv(a, b);
      return kind == SymInt::Kind::kFloorDiv ? result : a - result * b;
    case SymInt::Kind::kMax:
      return std::max(a, b);
    case SymInt::Kind::kMin:
      return std::min(a, b);
    case SymInt::Kind::kConstant:
    case SymInt::Kind::kSymbol:
      return absl::InternalError("a leaf has no operands");
  }
  return absl::OutOfRangeError("a size expression exceeds 64 bits");
}

// Recursive descent over the text form.
class Parser {
 public:
  explicit Parser(absl::string_view text) : text_(text) {}

  absl::StatusOr<SymInt> ParseAll() {
    COTAN_ASSIGN_OR_RETURN(SymInt value, ParseValue(/*depth=*/0));
    if (position_ != text_.size()) return Error("the end");
    return value;
  }

 private:
  static constexpr int kMaxDepth = 64;  // bounds the stack on hostile text

  absl::Status Error(absl::string_view expected) const {
    return absl::InvalidArgumentError(
        absl::StrCat("size expression '", text_, "': expected ", expected, " at character ", position_));
  }

  bool Consume(absl::string_view token) {
    if (!absl::StartsWith(text_.substr(position_), token)) return false;
    position_ += token.size();
    return true;
  }

  absl::StatusOr<int64_t> ParseNumber() {
    const size_t start = position_;
    if (position_ < text_.size() && text_[position_] == '-') ++position_;
    while (position_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[position_]))) ++position_;
    int64_t value = 0;
    if (!absl::SimpleAtoi(text_.substr(start, position_ - start), &value)) {
      position_ = start;
      return Error("a number");
    }
    return value;
  }

  absl::StatusOr<SymInt> ParseCall(SymInt::Kind kind, int depth) {
    COTAN_ASSIGN_OR_RETURN(SymInt lhs, ParseValue(depth + 1));
    if (!Consume(", ")) return Error("', '");
    COTAN_ASSIGN_OR_RETURN(SymInt rhs, ParseValue(depth + 1));
    if (!Consume(")")) return Error("')'");
    return SymInt::Binary(kind, lhs, rhs);
  }

  absl::StatusOr<SymInt> ParseInfix(int depth) {
    COTAN_ASSIGN_OR_RETURN(SymInt lhs, ParseValue(depth + 1));
    SymInt::Kind kind;
    if (Consume(" + ")) {
      kind = SymInt::Kind::kAdd;
    } else if (Consume(" * ")) {
      kind = SymInt::Kind::kMul;
    } else if (Consume(" // ")) {
      kind = SymInt::Kind::kFloorDiv;
    } else if (Consume(" % ")) {
      kind = SymInt::Kind::kMod;
    } else {
      return Error("one of ' + ', ' * ', ' // ', ' % '");
    }
    COTAN_ASSIGN_OR_RETURN(SymInt rhs, ParseValue(depth + 1));
    if (!Consume(")")) return Error("')'");
    return SymInt::Binary(kind, lhs, rhs);
  }

  absl::StatusOr<SymInt> ParseValue(int depth) {
    if (depth > kMaxDepth) return Error("less nesting");
    if (Consume("max(")) return ParseCall(SymInt::Kind::kMax, depth);
    if (Consume("min(")) return ParseCall(SymInt::Kind::kMin, depth);
    if (Consume("(")) return ParseInfix(depth);
    if (Consume("s")) {
      COTAN_ASSIGN_OR_RETURN(int64_t index, ParseNumber());
      if (index < 0 || index > 1'000'000) return Error("a symbol index in [0, 1000000]");
      return SymInt::Symbol(static_cast<int>(index));
    }
    COTAN_ASSIGN_OR_RETURN(int64_t value, ParseNumber());
    return SymInt(value);
  }

  absl::string_view text_;
  size_t position_ = 0;
};

}  // namespace

SymInt SymInt::Symbol(int index) {
  SymInt result(index);
  result.node_ = std::make_shared<const Node>(Node{Kind::kSymbol, SymInt(), SymInt()});
  return result;
}

SymInt SymInt::Binary(Kind kind, const SymInt& lhs, const SymInt& rhs) {
  if (lhs.is_constant() && rhs.is_constant()) {
    const absl::StatusOr<int64_t> folded = Apply(kind, lhs.value_, rhs.value_);
    if (folded.ok()) return SymInt(*folded);
  }
  if (kind == Kind::kAdd && rhs == SymInt(0)) return lhs;
  if (kind == Kind::kAdd && lhs == SymInt(0)) return rhs;
  if (kind == Kind::kMul && rhs == SymInt(1)) return lhs;
  if (kind == Kind::kMul && lhs == SymInt(1)) return rhs;
  if (kind == Kind::kFloorDiv && rhs == SymInt(1)) return lhs;
  SymInt result;
  result.node_ = std::make_shared<const Node>(Node{kind, lhs, rhs});
  return result;
}

absl::StatusOr<SymInt> SymInt::Parse(absl::string_view text) { return Parser(text).ParseAll(); }

SymInt::Kind SymInt::KindOfNode() const { return node_->kind; }
const SymInt& SymInt::lhs() const { return node_->lhs; }
const SymInt& SymInt::rhs() const { return node_->rhs; }

absl::StatusOr<int64_t> SymInt::Evaluate(absl::Span<const int64_t> symbols) const {
  if (is_constant()) return value_;
  if (kind() == Kind::kSymbol) {
    if (static_cast<size_t>(value_) >= symbols.size()) {
      return absl::InvalidArgumentError(absl::StrCat("size symbol s", value_, " has no value"));
    }
    return symbols[static_cast<size_t>(value_)];
  }
  COTAN_ASSIGN_OR_RETURN(int64_t a, lhs().Evaluate(symbols));
  COTAN_ASSIGN_OR_RETURN(int64_t b, rhs().Evaluate(symbols));
  return Apply(kind(), a, b);
}

std::string SymInt::ToString() const {
  switch (kind()) {
    case Kind::kConstant:
      return absl::StrCat(value_);
    case Kind::kSymbol:
      return absl::StrCat("s", value_);
    case Kind::kAdd:
      return absl::StrCat("(", lhs().ToString(), " + ", rhs().ToString(), ")");
    case Kind::kMul:
      return absl::StrCat("(", lhs().ToString(), " * ", rhs().ToString(), ")");
    case Kind::kFloorDiv:
      return absl::StrCat("(", lhs().ToString(), " // ", rhs().ToString(), ")");
    case Kind::kMod:
      return absl::StrCat("(", lhs().ToString(), " % ", rhs().ToString(), ")");
    case Kind::kMax:
      return absl::StrCat("max(", lhs().ToString(), ", ", rhs().ToString(), ")");
    case Kind::kMin:
      return absl::StrCat("min(", lhs().ToString(), ", ", rhs().ToString(), ")");
  }
  return "";
}

bool operator==(const SymInt& a, const SymInt& b) {
  if (a.kind() != b.kind() || a.value_ != b.value_) return false;
  if (a.is_constant() || a.kind() == SymInt::Kind::kSymbol || a.node_ == b.node_) return true;
  return a.lhs() == b.lhs() && a.rhs() == b.rhs();
}

}  // namespace cotan
