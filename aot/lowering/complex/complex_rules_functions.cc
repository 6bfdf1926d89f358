// SPDX-License-Identifier: Apache-2.0

// Rules of pointwise functions with complex or real results.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "aot/lowering/complex/complex_rules.h"

namespace cotan::aot {
namespace {

bool ScaledLog(ComplexNode& n, double factor) {
  const ComplexValue log = n.math.Log(n.Operands(0));
  return n.Return(n.math.Scale(log.real, factor), n.math.Scale(log.imaginary, factor));
}

ComplexValue TimesConjugate(ComplexNode& n, ComplexValue a, ComplexValue b) {
  return n.math.Multiply(a, {b.real, n.math.Unary("neg", b.imaginary)});
}

ValueId Magnitude(ComplexNode& n) { return n.math.Magnitude({n.Part(0, 0), n.Part(0, 1)}); }

// Emits the node's op with `real` in the place of its first operand.
bool ReturnOf(ComplexNode& n, ValueId real) {
  std::vector<Argument> arguments = n.node().arguments;
  arguments[0] = Use{real};
  const TensorType type = n.ResultType();
  for (Argument& argument : arguments) {
    if (std::holds_alternative<DType>(argument)) argument = type.dtype;
  }
  return n.ReturnReal(n.math.Emit(n.node().op, std::move(arguments), type));
}

// Applies the node's predicate to each part.
ComplexValue Tests(ComplexNode& n) {
  const TensorType type = n.ResultType();
  const ValueId real = n.math.Emit(n.node().op, {Use{n.Part(0, 0)}}, type);
  return {real, n.math.Emit(n.node().op, {Use{n.Part(0, 1)}}, type)};
}

template <ComplexValue (ComplexMath::*kFunction)(ComplexValue)>
bool Function(ComplexNode& n) {
  return n.IsComplexOperand(0) && n.Return((n.math.*kFunction)(n.Operands(0)));
}

bool InverseRoot(ComplexNode& n) { return n.Return(n.math.Reciprocal(n.math.Sqrt(n.Operands(0)))); }
bool Square(ComplexNode& n) { return n.Return(n.math.Power(n.Operands(0), 2)); }
bool Log2(ComplexNode& n) { return ScaledLog(n, 1.4426950408889634); }
bool Log10(ComplexNode& n) { return ScaledLog(n, 0.43429448190325183); }

bool LogPlusOne(ComplexNode& n) {
  const ComplexValue z = n.Operands(0);
  return n.Return(n.math.Log(n.math.Add(z, n.math.Constant(1, 0, z.real))));
}

bool ExpMinusOne(ComplexNode& n) {
  const ComplexValue z = n.Operands(0);
  return n.Return(n.math.Subtract(n.math.Exp(z), n.math.Constant(1, 0, z.real)));
}

bool Silu(ComplexNode& n) {
  const ComplexValue z = n.Operands(0);
  return n.Return(n.math.Multiply(z, n.math.Sigmoid(z)));
}

// (gradient, result): gradient times the conjugate of the derivative.
bool SigmoidBackward(ComplexNode& n) {
  const ComplexValue y = n.Operands(1);
  const ComplexValue rest = n.math.Subtract(n.math.Constant(1, 0, y.real), y);
  return n.Return(TimesConjugate(n, n.Operands(0), n.math.Multiply(y, rest)));
}

bool TanhBackward(ComplexNode& n) {
  const ComplexValue y = n.Operands(1);
  return n.Return(
      TimesConjugate(n, n.Operands(0), n.math.Subtract(n.math.Constant(1, 0, y.real), n.math.Multiply(y, y))));
}

// Either operand may be a number.
bool Power(ComplexNode& n) {
  const auto exponent = NumberOf(n.node().arguments[1]);
  if (exponent.has_value() && exponent->second == 0) {
    return n.Return(n.math.Power(n.Operands(0), exponent->first));
  }
  const ComplexValue base = n.Operands(0);
  return n.Return(n.math.Power(base, n.Operands(1)));
}

bool Abs(ComplexNode& n) { return n.ReturnReal(Magnitude(n)); }
bool Angle(ComplexNode& n) { return n.ReturnReal(n.math.Angle({n.Part(0, 0), n.Part(0, 1)})); }

// Returns the result of the op on the magnitudes.
bool OfMagnitude(ComplexNode& n) { return ReturnOf(n, Magnitude(n)); }
bool OfNonZero(ComplexNode& n) { return ReturnOf(n, n.math.IsNotZero({n.Part(0, 0), n.Part(0, 1)})); }

bool OfBoth(ComplexNode& n) {
  const ComplexValue tests = Tests(n);
  return n.ReturnReal(n.math.Binary("logical_and", tests.real, tests.imaginary));
}

bool OfEither(ComplexNode& n) {
  const ComplexValue tests = Tests(n);
  return n.ReturnReal(n.math.Binary("logical_or", tests.real, tests.imaginary));
}

bool IsZero(ComplexNode& n) {
  const ValueId real = n.math.Compare("eq", n.Part(0, 0), 0);
  return n.ReturnReal(n.math.Binary("logical_and", real, n.math.Compare("eq", n.Part(0, 1), 0)));
}

// Returns the dtype of the parts of operands 0 and 1 after promotion. Tensors with dimensions decide before those
// without, and integers do not decide.
DType PromotedPart(const ComplexNode& n) {
  for (const bool with_dims : {true, false}) {
    bool decides = false, is_double = false;
    for (const size_t i : {0, 1}) {
      if (n.Operand(i) == kNoValue) continue;
      const TensorType& type = n.TypeOf(n.Operand(i));
      if (type.sizes.empty() == with_dims) continue;
      decides |= IsFloatingPoint(type.dtype) || IsComplex(type.dtype);
      is_double |= type.dtype == DType::kFloat64 || type.dtype == DType::kComplex128;
    }
    if (decides) return is_double ? DType::kFloat64 : DType::kFloat32;
  }
  return DType::kFloat32;
}

bool Equal(ComplexNode& n) {
  const bool is_equal = n.node().op.find(".eq.") != std::string::npos;
  const DType dtype = PromotedPart(n);
  const ComplexValue a = n.Operands(0, dtype), b = n.Operands(1, dtype);
  const absl::string_view compare = is_equal ? "eq" : "ne";
  const ValueId real = n.math.Binary(compare, a.real, b.real);
  const ValueId imaginary = n.math.Binary(compare, a.imaginary, b.imaginary);
  return n.ReturnReal(n.math.Binary(is_equal ? "logical_and" : "logical_or", real, imaginary));
}

// x / |x|, and 0 for 0.
bool Sgn(ComplexNode& n) {
  const ValueId magnitude = Magnitude(n);
  const ValueId is_zero = n.math.Compare("eq", magnitude, 0);
  const ValueId divisor = n.math.Where(is_zero, n.math.NumberLike(1, magnitude), magnitude);
  const ValueId real = n.math.Binary("div", n.Part(0, 0), divisor);
  return n.Return(real, n.math.Binary("div", n.Part(0, 1), divisor));
}

}  // namespace

absl::Span<const ComplexRuleRow> FunctionComplexRules() {
  static constexpr ComplexRuleRow kRows[] = {
      {"aten.abs.default", Abs},
      {"aten.all.default", OfNonZero},
      {"aten.all.dim", OfNonZero},
      {"aten.all.dims", OfNonZero},
      {"aten.angle.default", Angle},
      {"aten.any.default", OfNonZero},
      {"aten.any.dim", OfNonZero},
      {"aten.any.dims", OfNonZero},
      {"aten.cos.default", Function<&ComplexMath::Cos>},
      {"aten.cosh.default", Function<&ComplexMath::Cosh>},
      {"aten.eq.Scalar", Equal},
      {"aten.eq.Tensor", Equal},
      {"aten.exp.default", Function<&ComplexMath::Exp>},
      {"aten.expm1.default", ExpMinusOne},
      {"aten.isfinite.default", OfBoth},
      {"aten.isinf.default", OfEither},
      {"aten.isnan.default", OfEither},
      {"aten.linalg_vector_norm.default", OfMagnitude},
      {"aten.log.default", Function<&ComplexMath::Log>},
      {"aten.log10.default", Log10},
      {"aten.log1p.default", LogPlusOne},
      {"aten.log2.default", Log2},
      {"aten.logical_not.default", IsZero},
      {"aten.ne.Scalar", Equal},
      {"aten.ne.Tensor", Equal},
      {"aten.norm.Scalar", OfMagnitude},
      {"aten.norm.ScalarOpt_dim", OfMagnitude},
      {"aten.pow.Scalar", Power},
      {"aten.pow.Tensor_Scalar", Power},
      {"aten.pow.Tensor_Tensor", Power},
      {"aten.reciprocal.default", Function<&ComplexMath::Reciprocal>},
      {"aten.rsqrt.default", InverseRoot},
      {"aten.sgn.default", Sgn},
      {"aten.sigmoid.default", Function<&ComplexMath::Sigmoid>},
      {"aten.sigmoid_backward.default", SigmoidBackward},
      {"aten.silu.default", Silu},
      {"aten.sin.default", Function<&ComplexMath::Sin>},
      {"aten.sinh.default", Function<&ComplexMath::Sinh>},
      {"aten.sqrt.default", Function<&ComplexMath::Sqrt>},
      {"aten.square.default", Square},
      {"aten.tan.default", Function<&ComplexMath::Tan>},
      {"aten.tanh.default", Function<&ComplexMath::Tanh>},
      {"aten.tanh_backward.default", TanhBackward},
  };
  return kRows;
}

}  // namespace cotan::aot
