// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/ptx/token_cursor.h"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace cotan::cuda::ptx {
namespace {

std::optional<uint64_t> ParseDigits(absl::string_view digits, int base) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<Number> ParseNumber(absl::string_view text) {
  if (text.empty() || !absl::ascii_isdigit(text[0])) return std::nullopt;
  const char prefix = text.size() > 2 && text[0] == '0' ? absl::ascii_tolower(text[1]) : '\0';
  if (prefix == 'f' || prefix == 'd') {
    const std::optional<uint64_t> bits = ParseDigits(text.substr(2), 16);
    if (!bits.has_value()) return std::nullopt;
    return Number{static_cast<int64_t>(*bits), true, prefix == 'f' ? 32 : 64};
  }
  if (text.back() == 'U' || text.back() == 'u') text.remove_suffix(1);
  std::optional<uint64_t> value;
  if (prefix == 'x') {
    value = ParseDigits(text.substr(2), 16);
  } else if (prefix == 'b') {
    value = ParseDigits(text.substr(2), 2);
  } else {
    value = ParseDigits(text, text.size() > 1 && text[0] == '0' ? 8 : 10);
  }
  if (!value.has_value()) return std::nullopt;
  return Number{static_cast<int64_t>(*value)};
}

Token TokenCursor::Next() {
  const Token token = Peek();
  if (position_ + 1 < tokens_.size()) ++position_;
  return token;
}

bool TokenCursor::Accept(absl::string_view text) {
  if (!Peek().Is(text)) return false;
  Next();
  return true;
}

absl::Status TokenCursor::Expect(absl::string_view text) {
  if (Accept(text)) return absl::OkStatus();
  return Error(absl::StrCat("expected '", text, "'"));
}

absl::StatusOr<std::string> TokenCursor::ExpectName() {
  if (Peek().kind != TokenKind::kWord || Peek().text[0] == '.') return Error("expected a name");
  return std::string(Next().text);
}

absl::StatusOr<int64_t> TokenCursor::ExpectInteger() {
  const bool negative = Accept("-");
  const std::optional<Number> number = ParseNumber(Peek().text);
  if (!number.has_value() || number->is_float) return Error("expected an integer");
  Next();
  return negative ? -number->value : number->value;
}

absl::StatusOr<Declaration> TokenCursor::ParseDeclaration() {
  Declaration declaration;
  bool typed = false;
  int vector = 1;
  while (Peek().kind == TokenKind::kWord && Peek().text[0] == '.') {
    const absl::string_view word = Next().text;
    if (word == ".align") {
      COTAN_ASSIGN_OR_RETURN(declaration.alignment, ExpectInteger());
    } else if (word == ".v2" || word == ".v4") {
      vector = word == ".v2" ? 2 : 4;
    } else if (const auto type = ParseScalarType(word.substr(1)); type.has_value()) {
      declaration.type = *type;
      typed = true;
    } else if (word != ".ptr" && word != ".global" && word != ".const" && word != ".shared" && word != ".local") {
      return Error(absl::StrCat("unknown attribute ", word, " of a declaration"));
    }
  }
  if (!typed) return Error("expected a type");
  COTAN_ASSIGN_OR_RETURN(declaration.name, ExpectName());
  const int64_t element = int64_t{declaration.type.Bytes()} * vector;
  declaration.size = element;
  if (declaration.alignment == 0) declaration.alignment = element;
  while (Accept("[")) {
    if (Accept("]")) {
      declaration.unsized = true;
      declaration.size = 0;
      continue;
    }
    COTAN_ASSIGN_OR_RETURN(const int64_t count, ExpectInteger());
    if (count < 0 || count > (int64_t{1} << 32)) return Error("array size out of range");
    declaration.size *= count;
    COTAN_RETURN_IF_ERROR(Expect("]"));
  }
  return declaration;
}

std::string TokenCursor::TextSince(const Token& first) const {
  std::string text(absl::StripTrailingAsciiWhitespace(text_.substr(first.offset, Peek().offset - first.offset)));
  for (char& c : text) {
    if (absl::ascii_isspace(c)) c = ' ';
  }
  absl::RemoveExtraAsciiWhitespace(&text);
  return text;
}

absl::Status TokenCursor::Error(absl::string_view what) const {
  const std::string at = AtEnd() ? "the end" : absl::StrCat("'", Peek().text, "'");
  return absl::InvalidArgumentError(absl::StrCat("PTX line ", Peek().line, ": ", what, " at ", at));
}

}  // namespace cotan::cuda::ptx
