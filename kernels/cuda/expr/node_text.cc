// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/expr/node_text.h"

#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/float8.h"
#include "base/half.h"

namespace cotan::cuda::expr {
namespace {

using namespace serialization;  // NOLINT: the enumerators of ScalarFn are many

// Returns true if a kernel holds values of this dtype as f32.
bool IsNarrowFloat(DType dtype) { return IsFloatingPoint(dtype) && ByteSize(dtype) < 4; }

// Returns a literal as an operand of any operator.
std::string InParentheses(std::string literal) { return literal[0] == '-' ? absl::StrCat("(", literal, ")") : literal; }

// Returns a literal that is exactly `value`.
std::string FloatLiteral(DType dtype, double value) {
  if (dtype == DType::kFloat64) {
    if (std::isnan(value)) return "__longlong_as_double(0x7ff8000000000000ll)";
    if (std::isinf(value)) return absl::StrCat("__longlong_as_double(0x", value < 0 ? "f" : "7", "ff0000000000000ll)");
    const std::string text = absl::StrFormat("%.17g", value);
    return InParentheses(text.find_first_of(".e") == std::string::npos ? absl::StrCat(text, ".0") : text);
  }
  float rounded = static_cast<float>(value);
  if (dtype == DType::kFloat16) rounded = Float16ToFloat(FloatToFloat16(rounded));
  if (dtype == DType::kBFloat16) rounded = BFloat16ToFloat(FloatToBFloat16(rounded));
  if (dtype == DType::kFloat8E4m3fn) rounded = Float8E4m3fnToFloat(FloatToFloat8E4m3fn(rounded));
  if (dtype == DType::kFloat8E5m2) rounded = Float8E5m2ToFloat(FloatToFloat8E5m2(rounded));
  if (std::isnan(rounded)) return "__int_as_float(0x7fc00000)";
  if (std::isinf(rounded)) return absl::StrCat("__int_as_float(0x", rounded < 0 ? "f" : "7", "f800000)");
  const std::string text = absl::StrFormat("%.9g", rounded);
  return InParentheses(absl::StrCat(text, text.find_first_of(".e") == std::string::npos ? ".0f" : "f"));
}

std::string IntegerLiteral(DType dtype, int64_t value) {
  switch (dtype) {
    case DType::kBool:
      return value != 0 ? "true" : "false";
    case DType::kUInt8:
      return absl::StrCat("uint8(", static_cast<uint8_t>(value), ")");
    case DType::kInt8:
      return absl::StrCat("int8(", static_cast<int8_t>(value), ")");
    case DType::kInt16:
      return absl::StrCat("int16(", static_cast<int16_t>(value), ")");
    case DType::kInt32:
      if (static_cast<int32_t>(value) == std::numeric_limits<int32_t>::min()) return "(-2147483647 - 1)";
      return InParentheses(absl::StrCat(static_cast<int32_t>(value)));
    default:
      if (value == std::numeric_limits<int64_t>::min()) return "(-9223372036854775807ll - 1)";
      return InParentheses(absl::StrCat(value, "ll"));
  }
}

// The functions that are written as an operator on floats, comparisons on all types.
absl::string_view OperatorOf(ScalarFn fn, DType dtype) {
  switch (fn) {
    case FN_EQ:
      return "==";
    case FN_NE:
      return "!=";
    case FN_LT:
      return "<";
    case FN_LE:
      return "<=";
    case FN_GT:
      return ">";
    case FN_GE:
      return ">=";
    case FN_DIV:
      return "/";
    default:
      break;
  }
  if (!IsFloatingPoint(dtype)) return "";
  return fn == FN_ADD ? "+" : fn == FN_SUB ? "-" : fn == FN_MUL ? "*" : "";
}

struct NamedFunction {
  ScalarFn fn;
  absl::string_view name;
};

// The functions of the device library.
constexpr NamedFunction kNamedFunctions[] = {{FN_NEG, "Neg"},
                                             {FN_ABS, "Abs"},
                                             {FN_SIGN, "Sign"},
                                             {FN_CEIL, "Ceil"},
                                             {FN_FLOOR, "Floor"},
                                             {FN_ROUND, "Round"},
                                             {FN_TRUNC, "Trunc"},
                                             {FN_SQRT, "Sqrt"},
                                             {FN_RSQRT, "Rsqrt"},
                                             {FN_RECIPROCAL, "Reciprocal"},
                                             {FN_EXP, "Exp"},
                                             {FN_EXP2, "Exp2"},
                                             {FN_EXPM1, "Expm1"},
                                             {FN_LOG, "Log"},
                                             {FN_LOG2, "Log2"},
                                             {FN_LOG10, "Log10"},
                                             {FN_LOG1P, "Log1p"},
                                             {FN_SIN, "Sin"},
                                             {FN_COS, "Cos"},
                                             {FN_TAN, "Tan"},
                                             {FN_ASIN, "Asin"},
                                             {FN_ACOS, "Acos"},
                                             {FN_ATAN, "Atan"},
                                             {FN_SINH, "Sinh"},
                                             {FN_COSH, "Cosh"},
                                             {FN_TANH, "Tanh"},
                                             {FN_ASINH, "Asinh"},
                                             {FN_ACOSH, "Acosh"},
                                             {FN_ATANH, "Atanh"},
                                             {FN_ERF, "Erf"},
                                             {FN_ERFC, "Erfc"},
                                             {FN_ERFINV, "ErfInv"},
                                             {FN_LGAMMA, "Lgamma"},
                                             {FN_DIGAMMA, "Digamma"},
                                             {FN_LOGISTIC, "Logistic"},
                                             {FN_ISNAN, "IsNan"},
                                             {FN_ISINF, "IsInf"},
                                             {FN_RELU, "Relu"},
                                             {FN_ADD, "Add"},
                                             {FN_SUB, "Sub"},
                                             {FN_MUL, "Mul"},
                                             {FN_FLOOR_DIV, "FloorDiv"},
                                             {FN_TRUNC_DIV, "TruncDiv"},
                                             {FN_REMAINDER, "Remainder"},
                                             {FN_FMOD, "Fmod"},
                                             {FN_POW, "Pow"},
                                             {FN_MAXIMUM, "Maximum"},
                                             {FN_MINIMUM, "Minimum"},
                                             {FN_FMAX, "Fmax"},
                                             {FN_FMIN, "Fmin"},
                                             {FN_ATAN2, "Atan2"},
                                             {FN_HYPOT, "Hypot"},
                                             {FN_COPYSIGN, "CopySign"},
                                             {FN_SHIFT_LEFT, "ShiftLeft"},
                                             {FN_SHIFT_RIGHT, "ShiftRight"}};

// Returns the name of the function in the device library; "" if it is not a function there.
absl::string_view NameOf(ScalarFn fn) {
  for (const NamedFunction& function : kNamedFunctions) {
    if (function.fn == fn) return function.name;
  }
  return "";
}

// Functions whose value is representable in the dtype of their operands.
bool IsExact(ScalarFn fn) {
  switch (fn) {
    case FN_NEG:
    case FN_ABS:
    case FN_SIGN:
    case FN_CEIL:
    case FN_FLOOR:
    case FN_ROUND:
    case FN_TRUNC:
    case FN_RELU:
    case FN_MAXIMUM:
    case FN_MINIMUM:
    case FN_FMAX:
    case FN_FMIN:
    case FN_FMOD:
    case FN_COPYSIGN:
    case FN_SELECT:
      return true;
    default:
      return false;
  }
}

std::string CastText(DType from, DType to, const std::string& value) {
  if (CastIsIdentity(from, to)) return value;
  if (to == DType::kBool) return absl::StrCat(value, " != 0");
  if (IsFloatingPoint(from) && IsInteger(to)) return absl::StrCat("ToInteger<", ElementType(to), ">(", value, ")");
  if (ValueType(from) == ValueType(to)) return RoundedText(to, value);
  return RoundedText(to, absl::StrCat("static_cast<", ValueType(to), ">(", value, ")"));
}

// Functions of bools; "" if the general form holds.
std::string BoolText(ScalarFn fn, absl::Span<const std::string> operands) {
  switch (fn) {
    case FN_LOGICAL_NOT:
    case FN_BITWISE_NOT:
      return absl::StrCat("!", operands[0]);
    case FN_SIGN:
      return operands[0];
    case FN_ADD:
    case FN_MAXIMUM:
    case FN_FMAX:
    case FN_OR:
      return absl::StrCat(operands[0], " || ", operands[1]);
    case FN_MUL:
    case FN_MINIMUM:
    case FN_FMIN:
    case FN_AND:
      return absl::StrCat(operands[0], " && ", operands[1]);
    case FN_XOR:
      return absl::StrCat(operands[0], " != ", operands[1]);
    default:
      return "";
  }
}

std::string BitwiseText(ScalarFn fn, DType dtype, absl::Span<const std::string> operands) {
  const std::string type(ValueType(dtype));
  if (fn == FN_BITWISE_NOT) return absl::StrCat("static_cast<", type, ">(~", operands[0], ")");
  const absl::string_view sign = fn == FN_AND ? "&" : fn == FN_OR ? "|" : "^";
  return absl::StrCat("static_cast<", type, ">(", operands[0], " ", sign, " ", operands[1], ")");
}

}  // namespace

absl::string_view ElementType(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "bool";
    case DType::kUInt8:
      return "uint8";
    case DType::kInt8:
      return "int8";
    case DType::kInt16:
      return "int16";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
    case DType::kFloat16:
      return "float16";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat8E4m3fn:
      return "float8_e4m3fn";
    case DType::kFloat8E5m2:
      return "float8_e5m2";
    case DType::kFloat32:
      return "float";
    default:
      return "double";
  }
}

absl::string_view ValueType(DType dtype) { return IsNarrowFloat(dtype) ? "float" : ElementType(dtype); }

int64_t ValueBytes(DType dtype) { return dtype == DType::kFloat64 || dtype == DType::kInt64 ? 8 : 4; }

std::string ConstantText(const ExprNode& node) {
  return IsFloatingPoint(node.dtype) ? FloatLiteral(node.dtype, node.float_value)
                                     : IntegerLiteral(node.dtype, node.int_value);
}

std::string PositionText(DType dtype, absl::string_view position) {
  return RoundedText(dtype, absl::StrCat("static_cast<", ValueType(dtype), ">(", position, ")"));
}

bool CastIsIdentity(DType from, DType to) { return from == to || (IsNarrowFloat(from) && to == DType::kFloat32); }

std::string RoundedText(DType dtype, std::string value) {
  if (dtype == DType::kFloat16) return absl::StrCat("RoundToFloat16(", value, ")");
  if (dtype == DType::kBFloat16) return absl::StrCat("RoundToBfloat16(", value, ")");
  if (dtype == DType::kFloat8E4m3fn) return absl::StrCat("RoundToFloat8E4m3fn(", value, ")");
  if (dtype == DType::kFloat8E5m2) return absl::StrCat("RoundToFloat8E5m2(", value, ")");
  return value;
}

std::string FunctionText(const ExprNode& node, DType operand_dtype, absl::Span<const std::string> operands) {
  if (node.fn == FN_CAST) return CastText(operand_dtype, node.dtype, operands[0]);
  if (node.fn == FN_SELECT) return absl::StrCat(operands[0], " ? ", operands[1], " : ", operands[2]);
  if (operand_dtype == DType::kBool) {
    std::string text = BoolText(node.fn, operands);
    if (!text.empty()) return text;
  }
  if (node.fn == FN_BITWISE_NOT || (node.fn >= FN_AND && node.fn <= FN_XOR)) {
    return BitwiseText(node.fn, operand_dtype, operands);
  }
  std::string text;
  if (const absl::string_view sign = OperatorOf(node.fn, operand_dtype); !sign.empty()) {
    text = absl::StrCat(operands[0], " ", sign, " ", operands[1]);
  } else if (node.fn == FN_NEG && IsFloatingPoint(operand_dtype)) {
    text = absl::StrCat("-", operands[0]);
  } else {
    text = absl::StrCat(NameOf(node.fn), "(", absl::StrJoin(operands, ", "), ")");
  }
  return IsExact(node.fn) ? text : RoundedText(node.dtype, text);
}

std::string ReductionType(const ExprNode& node) {
  const absl::string_view name = node.fn == FN_REDUCE_SUM    ? "Sum"
                                 : node.fn == FN_REDUCE_PROD ? "Product"
                                 : node.fn == FN_REDUCE_MAX  ? "Max"
                                                             : "Min";
  return absl::StrCat(name, "<", ValueType(node.dtype), ">");
}

absl::string_view TotalType(DType dtype) {
  if (IsFloatingPoint(dtype)) return ValueType(dtype);
  return dtype == DType::kInt64 ? "int64" : "int32";
}

int64_t TotalBytes(DType dtype) { return ValueBytes(dtype); }

bool IsSpecial(ScalarFn fn, DType dtype) {
  if (!IsFloatingPoint(dtype)) return false;
  switch (fn) {
    case FN_EXP2:
    case FN_LOG2:
    case FN_LOG10:
    case FN_POW:
    case FN_ATAN2:
    case FN_HYPOT:
    case FN_ERFC:
    case FN_ERFINV:
    case FN_LGAMMA:
    case FN_DIGAMMA:
      return true;
    default:
      return fn >= FN_SIN && fn <= FN_ATANH && fn != FN_TANH;
  }
}

}  // namespace cotan::cuda::expr
