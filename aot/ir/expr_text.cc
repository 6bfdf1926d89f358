// SPDX-License-Identifier: Apache-2.0

#include "aot/ir/expr_text.h"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "base/sym_int.h"

namespace cotan::aot {
namespace {

using serialization::Expr;
using serialization::ExprInstruction;
using serialization::ScalarFn;

// All scalar functions with their names.
struct NamedFn {
  ScalarFn fn;
  const char* name;
};
constexpr NamedFn kFns[] = {
    {serialization::FN_INPUT, "input"},
    {serialization::FN_CONSTANT, "constant"},
    {serialization::FN_SIZE, "size"},
    {serialization::FN_IOTA, "iota"},
    {serialization::FN_RANDOM_UNIFORM, "random_uniform"},
    {serialization::FN_CAST, "cast"},
    {serialization::FN_NEG, "neg"},
    {serialization::FN_ABS, "abs"},
    {serialization::FN_SIGN, "sign"},
    {serialization::FN_CEIL, "ceil"},
    {serialization::FN_FLOOR, "floor"},
    {serialization::FN_ROUND, "round"},
    {serialization::FN_TRUNC, "trunc"},
    {serialization::FN_SQRT, "sqrt"},
    {serialization::FN_RSQRT, "rsqrt"},
    {serialization::FN_RECIPROCAL, "reciprocal"},
    {serialization::FN_EXP, "exp"},
    {serialization::FN_EXP2, "exp2"},
    {serialization::FN_EXPM1, "expm1"},
    {serialization::FN_LOG, "log"},
    {serialization::FN_LOG2, "log2"},
    {serialization::FN_LOG10, "log10"},
    {serialization::FN_LOG1P, "log1p"},
    {serialization::FN_SIN, "sin"},
    {serialization::FN_COS, "cos"},
    {serialization::FN_TAN, "tan"},
    {serialization::FN_ASIN, "asin"},
    {serialization::FN_ACOS, "acos"},
    {serialization::FN_ATAN, "atan"},
    {serialization::FN_SINH, "sinh"},
    {serialization::FN_COSH, "cosh"},
    {serialization::FN_TANH, "tanh"},
    {serialization::FN_ASINH, "asinh"},
    {serialization::FN_ACOSH, "acosh"},
    {serialization::FN_ATANH, "atanh"},
    {serialization::FN_ERF, "erf"},
    {serialization::FN_ERFC, "erfc"},
    {serialization::FN_ERFINV, "erfinv"},
    {serialization::FN_LGAMMA, "lgamma"},
    {serialization::FN_DIGAMMA, "digamma"},
    {serialization::FN_LOGISTIC, "logistic"},
    {serialization::FN_LOGICAL_NOT, "logical_not"},
    {serialization::FN_BITWISE_NOT, "bitwise_not"},
    {serialization::FN_ISNAN, "isnan"},
    {serialization::FN_ISINF, "isinf"},
    {serialization::FN_RELU, "relu"},
    {serialization::FN_ADD, "add"},
    {serialization::FN_SUB, "sub"},
    {serialization::FN_MUL, "mul"},
    {serialization::FN_DIV, "div"},
    {serialization::FN_FLOOR_DIV, "floor_div"},
    {serialization::FN_TRUNC_DIV, "trunc_div"},
    {serialization::FN_REMAINDER, "remainder"},
    {serialization::FN_FMOD, "fmod"},
    {serialization::FN_POW, "pow"},
    {serialization::FN_MAXIMUM, "maximum"},
    {serialization::FN_MINIMUM, "minimum"},
    {serialization::FN_FMAX, "fmax"},
    {serialization::FN_FMIN, "fmin"},
    {serialization::FN_ATAN2, "atan2"},
    {serialization::FN_HYPOT, "hypot"},
    {serialization::FN_COPYSIGN, "copysign"},
    {serialization::FN_EQ, "eq"},
    {serialization::FN_NE, "ne"},
    {serialization::FN_LT, "lt"},
    {serialization::FN_LE, "le"},
    {serialization::FN_GT, "gt"},
    {serialization::FN_GE, "ge"},
    {serialization::FN_AND, "and"},
    {serialization::FN_OR, "or"},
    {serialization::FN_XOR, "xor"},
    {serialization::FN_SHIFT_LEFT, "shift_left"},
    {serialization::FN_SHIFT_RIGHT, "shift_right"},
    {serialization::FN_SELECT, "select"},
    {serialization::FN_REDUCE_SUM, "reduce_sum"},
    {serialization::FN_REDUCE_PROD, "reduce_prod"},
    {serialization::FN_REDUCE_MAX, "reduce_max"},
    {serialization::FN_REDUCE_MIN, "reduce_min"},
};

absl::Status LineError(absl::string_view line, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat("expression line '", line, "': ", problem));
}

std::string PrintInstruction(const ExprInstruction& instruction) {
  std::string text = absl::StrCat(DTypeName(FromProto(instruction.dtype())), " = ", ScalarFnName(instruction.fn()));
  switch (instruction.fn()) {
    case serialization::FN_INPUT:
    case serialization::FN_IOTA:
      return absl::StrCat(text, " ", instruction.index());
    case serialization::FN_CONSTANT:
      if (IsFloatingPoint(FromProto(instruction.dtype()))) {
        return absl::StrCat(text, " ", PrintDouble(instruction.float_value()));
      }
      return absl::StrCat(text, " ", instruction.int_value());
    case serialization::FN_SIZE:
      return absl::StrCat(text, " ", instruction.size());
    case serialization::FN_RANDOM_UNIFORM:
      return absl::StrCat(text, " ", instruction.index(), " slice ",
                          instruction.slice().empty() ? "0" : instruction.slice());
    default:
      for (const uint32_t operand : instruction.operands()) absl::StrAppend(&text, " ", operand);
      return text;
  }
}

// Splits "[a,max(b, c)]" at the commas outside parentheses.
absl::StatusOr<std::vector<std::string>> ParseList(absl::string_view text, absl::string_view line) {
  if (!absl::ConsumePrefix(&text, "[") || !absl::ConsumeSuffix(&text, "]")) return LineError(line, "expected [...]");
  std::vector<std::string> items;
  if (text.empty()) return items;
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      items.emplace_back(absl::StripAsciiWhitespace(text.substr(start, i - start)));
      start = i + 1;
    } else if (text[i] == '(') {
      ++depth;
    } else if (text[i] == ')') {
      --depth;
    }
  }
  return items;
}

absl::Status ParseDomain(absl::string_view line, Expr& expr) {
  absl::string_view rest = line;
  if (!absl::ConsumePrefix(&rest, "domain ")) return LineError(line, "expected 'domain [...]'");
  absl::string_view reduce;
  if (const size_t at = rest.find(" reduce "); at != absl::string_view::npos) {
    reduce = rest.substr(at + 8);
    rest = rest.substr(0, at);
  }
  COTAN_ASSIGN_OR_RETURN(std::vector<std::string> sizes, ParseList(rest, line));
  for (std::string& size : sizes) {
    COTAN_RETURN_IF_ERROR(SymInt::Parse(size).status());
    expr.add_domain_sizes(std::move(size));
  }
  if (reduce.empty()) return absl::OkStatus();
  COTAN_ASSIGN_OR_RETURN(std::vector<std::string> dims, ParseList(reduce, line));
  for (const std::string& dim : dims) {
    uint32_t value = 0;
    if (!absl::SimpleAtoi(dim, &value)) return LineError(line, "a reduce dimension is not a number");
    expr.add_reduce_dims(value);
  }
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> ParseIndex(absl::string_view text, absl::string_view line) {
  uint32_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) return LineError(line, absl::StrCat("'", text, "' is not an index"));
  return value;
}

absl::Status ParseConstant(absl::string_view text, absl::string_view line, ExprInstruction& instruction) {
  if (IsFloatingPoint(FromProto(instruction.dtype()))) {
    double value = 0;
    if (!absl::SimpleAtod(text, &value)) return LineError(line, "the constant is not a number");
    instruction.set_float_value(value);
    return absl::OkStatus();
  }
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) return LineError(line, "the constant is not an integer");
  instruction.set_int_value(value);
  return absl::OkStatus();
}

absl::Status ParseOperands(absl::string_view text, absl::string_view line, ExprInstruction& instruction) {
  switch (instruction.fn()) {
    case serialization::FN_INPUT:
    case serialization::FN_IOTA: {
      COTAN_ASSIGN_OR_RETURN(const uint32_t index, ParseIndex(text, line));
      instruction.set_index(index);
      return absl::OkStatus();
    }
    case serialization::FN_CONSTANT:
      return ParseConstant(text, line, instruction);
    case serialization::FN_SIZE:
      COTAN_RETURN_IF_ERROR(SymInt::Parse(text).status());
      instruction.set_size(std::string(text));
      return absl::OkStatus();
    case serialization::FN_RANDOM_UNIFORM: {
      const std::vector<absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits(" slice ", 1));
      if (parts.size() != 2) return LineError(line, "expected 'random_uniform INPUT slice SIZE'");
      COTAN_ASSIGN_OR_RETURN(const uint32_t index, ParseIndex(parts[0], line));
      COTAN_RETURN_IF_ERROR(SymInt::Parse(parts[1]).status());
      instruction.set_index(index);
      instruction.set_slice(std::string(parts[1]));
      return absl::OkStatus();
    }
    default:
      for (const absl::string_view operand : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
        COTAN_ASSIGN_OR_RETURN(const uint32_t index, ParseIndex(operand, line));
        instruction.add_operands(index);
      }
      return absl::OkStatus();
  }
}

absl::Status ParseInstruction(absl::string_view line, Expr& expr) {
  const std::vector<absl::string_view> sides = absl::StrSplit(line, absl::MaxSplits(" = ", 1));
  const std::vector<absl::string_view> left = absl::StrSplit(sides[0], absl::MaxSplits(": ", 1));
  if (sides.size() != 2 || left.size() != 2) return LineError(line, "expected 'N: DTYPE = FUNCTION ...'");
  if (left[0] != absl::StrCat(expr.instructions_size())) {
    return LineError(line, absl::StrCat("expected instruction number ", expr.instructions_size()));
  }
  COTAN_ASSIGN_OR_RETURN(const DType dtype, ParseDType(left[1]));
  const std::vector<absl::string_view> right = absl::StrSplit(sides[1], absl::MaxSplits(' ', 1));
  ExprInstruction& instruction = *expr.add_instructions();
  instruction.set_dtype(ToProto(dtype));
  for (const NamedFn& named : kFns) {
    if (right[0] == named.name) instruction.set_fn(named.fn);
  }
  if (instruction.fn() == serialization::SCALAR_FN_UNSPECIFIED) return LineError(line, "unknown function");
  return ParseOperands(right.size() > 1 ? right[1] : "", line, instruction);
}

}  // namespace

std::string ScalarFnName(ScalarFn fn) {
  for (const NamedFn& named : kFns) {
    if (named.fn == fn) return named.name;
  }
  return "";
}

std::string PrintDouble(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[32];
  for (int precision = 1; precision <= 17; ++precision) {
    std::snprintf(buffer, sizeof(buffer), "%.*g", precision, value);
    if (std::strtod(buffer, nullptr) == value) break;
  }
  std::string text = buffer;
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string PrintExpr(const Expr& expr, absl::string_view indent) {
  std::string text = absl::StrCat(indent, "domain [", absl::StrJoin(expr.domain_sizes(), ","), "]");
  if (expr.reduce_dims_size() > 0) absl::StrAppend(&text, " reduce [", absl::StrJoin(expr.reduce_dims(), ","), "]");
  absl::StrAppend(&text, "\n");
  for (int i = 0; i < expr.instructions_size(); ++i) {
    absl::StrAppend(&text, indent, i, ": ", PrintInstruction(expr.instructions(i)), "\n");
  }
  absl::StrAppend(&text, indent, "store ", absl::StrJoin(expr.outputs(), " "), "\n");
  return text;
}

absl::StatusOr<Expr> ParseExpr(absl::Span<const absl::string_view> lines) {
  Expr expr;
  if (lines.size() < 2) return absl::InvalidArgumentError("an expression needs a domain and a store line");
  COTAN_RETURN_IF_ERROR(ParseDomain(absl::StripAsciiWhitespace(lines.front()), expr));
  for (const absl::string_view line : lines.subspan(1, lines.size() - 2)) {
    COTAN_RETURN_IF_ERROR(ParseInstruction(absl::StripAsciiWhitespace(line), expr));
  }
  absl::string_view last = absl::StripAsciiWhitespace(lines.back());
  absl::string_view rest = last;
  if (!absl::ConsumePrefix(&rest, "store")) return LineError(last, "expected 'store N ...'");
  for (const absl::string_view output : absl::StrSplit(rest, ' ', absl::SkipEmpty())) {
    COTAN_ASSIGN_OR_RETURN(const uint32_t index, ParseIndex(output, last));
    expr.add_outputs(index);
  }
  return expr;
}

}  // namespace cotan::aot
