// SPDX-License-Identifier: Apache-2.0

#include "aot/lowering/complex/complex_math.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace cotan::aot {
namespace {

SymIntVector BroadcastSizes(const SymIntVector& a, const SymIntVector& b) {
  SymIntVector result = a.size() >= b.size() ? a : b;
  const SymIntVector& shorter = a.size() >= b.size() ? b : a;
  const size_t missing = result.size() - shorter.size();
  for (size_t d = 0; d < shorter.size(); ++d) {
    if (result[missing + d] == SymInt(1)) result[missing + d] = shorter[d];
  }
  return result;
}

}  // namespace

ValueId ComplexMath::Emit(std::string op, std::vector<Argument> arguments, TensorType type) {
  return graph_.InsertNode(at_, std::move(op), std::move(arguments), {{std::move(type)}}, source_).outputs[0];
}

ValueId ComplexMath::Unary(absl::string_view op, ValueId x) {
  return Emit(absl::StrCat("aten.", op, ".default"), {Use{x}}, TypeOf(x));
}

ValueId ComplexMath::Binary(absl::string_view op, ValueId a, ValueId b) {
  TensorType type = TypeOf(a);
  type.sizes = BroadcastSizes(type.sizes, TypeOf(b).sizes);
  if (op == "eq" || op == "ne") type.dtype = DType::kBool;
  std::vector<Argument> arguments = {Use{a}, Use{b}};
  if (op == "add" || op == "sub") arguments.push_back(SymInt(1));
  const bool is_default =
      op == "atan2" || op == "hypot" || op == "maximum" || op == "logical_or" || op == "logical_and";
  return Emit(absl::StrCat("aten.", op, is_default ? ".default" : ".Tensor"), std::move(arguments), std::move(type));
}

ValueId ComplexMath::Compare(absl::string_view op, ValueId a, double b) {
  TensorType type = TypeOf(a);
  type.dtype = DType::kBool;
  return Emit(absl::StrCat("aten.", op, ".Scalar"), {Use{a}, b}, std::move(type));
}

ValueId ComplexMath::Scale(ValueId x, double factor) { return Emit("aten.mul.Scalar", {Use{x}, factor}, TypeOf(x)); }

ValueId ComplexMath::Where(ValueId condition, ValueId a, ValueId b) {
  TensorType type = TypeOf(a);
  type.sizes = BroadcastSizes(TypeOf(condition).sizes, BroadcastSizes(type.sizes, TypeOf(b).sizes));
  return Emit("aten.where.self", {Use{condition}, Use{a}, Use{b}}, std::move(type));
}

ValueId ComplexMath::Full(double value, TensorType type) {
  const std::vector<SymInt> sizes(type.sizes.begin(), type.sizes.end());
  const DType dtype = type.dtype;
  return Emit("aten.full.default", {sizes, value, dtype, None{}, None{}, None{}}, std::move(type));
}

ValueId ComplexMath::Convert(ValueId x, DType dtype) {
  TensorType type = TypeOf(x);
  if (type.dtype == dtype) return x;
  type.dtype = dtype;
  return Emit("aten._to_copy.default", {Use{x}, dtype, None{}, None{}, None{}, false, None{}}, std::move(type));
}

ValueId ComplexMath::NumberLike(double value, ValueId x) { return Full(value, {TypeOf(x).dtype, {}, {}}); }

ComplexValue ComplexMath::Add(ComplexValue a, ComplexValue b) {
  return {Binary("add", a.real, b.real), Binary("add", a.imaginary, b.imaginary)};
}

ComplexValue ComplexMath::Subtract(ComplexValue a, ComplexValue b) {
  return {Binary("sub", a.real, b.real), Binary("sub", a.imaginary, b.imaginary)};
}

ComplexValue ComplexMath::Multiply(ComplexValue a, ComplexValue b) {
  const ValueId ac = Binary("mul", a.real, b.real), bd = Binary("mul", a.imaginary, b.imaginary);
  const ValueId ad = Binary("mul", a.real, b.imaginary), bc = Binary("mul", a.imaginary, b.real);
  const ValueId real = Binary("sub", ac, bd);
  return {real, Binary("add", ad, bc)};
}

// Scaled by the larger part of the divisor, so that its square does not overflow.
ComplexValue ComplexMath::Divide(ComplexValue a, ComplexValue b) {
  const ValueId scale = Binary("maximum", Unary("abs", b.real), Unary("abs", b.imaginary));
  const ValueId c = Binary("div", b.real, scale), d = Binary("div", b.imaginary, scale);
  const ValueId norm = Binary("mul", Binary("add", Binary("mul", c, c), Binary("mul", d, d)), scale);
  const ValueId ac = Binary("mul", a.real, c), bd = Binary("mul", a.imaginary, d);
  const ValueId bc = Binary("mul", a.imaginary, c), ad = Binary("mul", a.real, d);
  const ValueId real = Binary("div", Binary("add", ac, bd), norm);
  return {real, Binary("div", Binary("sub", bc, ad), norm)};
}

ComplexValue ComplexMath::ScaleBy(ComplexValue z, ValueId factor) {
  return {Binary("mul", z.real, factor), Binary("mul", z.imaginary, factor)};
}

ComplexValue ComplexMath::Negate(ComplexValue z) { return {Unary("neg", z.real), Unary("neg", z.imaginary)}; }

ComplexValue ComplexMath::Select(ValueId condition, ComplexValue a, ComplexValue b) {
  return {Where(condition, a.real, b.real), Where(condition, a.imaginary, b.imaginary)};
}

ComplexValue ComplexMath::Constant(double real, double imaginary, ValueId like) {
  return {NumberLike(real, like), NumberLike(imaginary, like)};
}

ValueId ComplexMath::Magnitude(ComplexValue z) { return Binary("hypot", z.real, z.imaginary); }

ValueId ComplexMath::Angle(ComplexValue z) { return Binary("atan2", z.imaginary, z.real); }

ValueId ComplexMath::IsNotZero(ComplexValue z) {
  return Binary("logical_or", Compare("ne", z.real, 0), Compare("ne", z.imaginary, 0));
}

ComplexValue ComplexMath::Reciprocal(ComplexValue z) { return Divide(Constant(1, 0, z.real), z); }

ComplexValue ComplexMath::Exp(ComplexValue z) {
  const ValueId magnitude = Unary("exp", z.real);
  return {Binary("mul", magnitude, Unary("cos", z.imaginary)), Binary("mul", magnitude, Unary("sin", z.imaginary))};
}

ComplexValue ComplexMath::Log(ComplexValue z) { return {Unary("log", Magnitude(z)), Angle(z)}; }

// Returns the root with positive real part. The part that would be a difference of large numbers is
// computed from the other one.
ComplexValue ComplexMath::Sqrt(ComplexValue z) {
  const ValueId sum = Binary("add", Magnitude(z), Unary("abs", z.real));
  const ValueId larger = Unary("sqrt", Scale(sum, 0.5));
  const ValueId is_zero = Compare("eq", larger, 0);
  const ValueId divisor = Where(is_zero, NumberLike(1, z.real), larger);
  const ValueId smaller = Scale(Binary("div", Unary("abs", z.imaginary), divisor), 0.5);
  const ValueId is_right = Compare("ge", z.real, 0);
  const ValueId height = Where(is_right, smaller, larger);
  return {Where(is_right, larger, smaller), Binary("copysign", height, z.imaginary)};
}

ComplexValue ComplexMath::Sin(ComplexValue z) {
  return {Binary("mul", Unary("sin", z.real), Unary("cosh", z.imaginary)),
          Binary("mul", Unary("cos", z.real), Unary("sinh", z.imaginary))};
}

ComplexValue ComplexMath::Cos(ComplexValue z) {
  return {Binary("mul", Unary("cos", z.real), Unary("cosh", z.imaginary)),
          Unary("neg", Binary("mul", Unary("sin", z.real), Unary("sinh", z.imaginary)))};
}

// -i tanh(iz)
ComplexValue ComplexMath::Tan(ComplexValue z) {
  const ComplexValue turned = Tanh({Unary("neg", z.imaginary), z.real});
  return {turned.imaginary, Unary("neg", turned.real)};
}

ComplexValue ComplexMath::Sinh(ComplexValue z) {
  return {Binary("mul", Unary("sinh", z.real), Unary("cos", z.imaginary)),
          Binary("mul", Unary("cosh", z.real), Unary("sin", z.imaginary))};
}

ComplexValue ComplexMath::Cosh(ComplexValue z) {
  return {Binary("mul", Unary("cosh", z.real), Unary("cos", z.imaginary)),
          Binary("mul", Unary("sinh", z.real), Unary("sin", z.imaginary))};
}

// (u + iv) / (1 + iuv) for u = tanh of the real part, v = tan of the imaginary.
ComplexValue ComplexMath::Tanh(ComplexValue z) {
  const ValueId u = Unary("tanh", z.real), v = Unary("tan", z.imaginary);
  return Divide({u, v}, {NumberLike(1, u), Binary("mul", u, v)});
}

ComplexValue ComplexMath::Sigmoid(ComplexValue z) { return Reciprocal(Add(Constant(1, 0, z.real), Exp(Negate(z)))); }

ComplexValue ComplexMath::Power(ComplexValue z, ComplexValue exponent) {
  const ComplexValue power = Exp(Multiply(exponent, Log(z)));
  return Select(IsNotZero(z), power, Constant(0, 0, z.real));
}

ComplexValue ComplexMath::Power(ComplexValue z, double exponent) {
  if (exponent == 0) return Add(ScaleBy(z, NumberLike(0, z.real)), Constant(1, 0, z.real));
  if (exponent == 1) return z;
  if (exponent == 2) return Multiply(z, z);
  if (exponent == 3) return Multiply(Multiply(z, z), z);
  if (exponent == 0.5) return Sqrt(z);
  if (exponent == -0.5) return Reciprocal(Sqrt(z));
  if (exponent == -1) return Reciprocal(z);
  if (exponent == -2) return Reciprocal(Multiply(z, z));
  return Power(z, Constant(exponent, 0, z.real));
}

}  // namespace cotan::aot
