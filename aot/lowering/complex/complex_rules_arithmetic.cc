// SPDX-License-Identifier: Apache-2.0

// Rules of sums, products, quotients and matrix products.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "aot/lowering/complex/complex_rules.h"

namespace cotan::aot {
namespace {

ComplexValue Times(ComplexNode& n, ComplexValue z, const Argument& number) {
  const auto [real, imaginary] = NumberOf(number).value_or(std::pair(1.0, 0.0));
  if (imaginary != 0) return n.math.Multiply(z, n.math.Constant(real, imaginary, z.real));
  return real == 1 ? z : n.math.ScaleBy(z, n.math.NumberLike(real, z.real));
}

// Returns an operand of a sum as a pair that broadcasts to the result's pair.
ValueId AsPair(ComplexNode& n, size_t i) {
  if (n.IsComplexOperand(i)) return n.Pair(i);
  const ValueId real = n.Operand(i);
  TensorType type = n.TypeOf(real);
  type.dtype = PartOf(n.ResultType().dtype);
  const std::vector<Use> parts = {Use{real}, Use{n.math.Full(0, type)}};
  type.sizes.push_back(2);
  return n.math.Emit("aten.stack.default", {parts, SymInt(-1)}, type);
}

bool WeightedSum(ComplexNode& n) {
  const ComplexValue a = n.Operands(0);
  const ComplexValue b = Times(n, n.Operands(1), n.node().arguments[2]);
  const bool is_difference = n.node().op.find("sub") != std::string::npos;
  return n.Return(is_difference ? n.math.Subtract(a, b) : n.math.Add(a, b));
}

// Computes self * other or self / other for a complex and a real operand.
bool Scale(ComplexNode& n, size_t complex, size_t real) {
  std::vector<Argument> arguments = {Use{n.Pair(complex)}, n.node().arguments[real]};
  if (const ValueId factor = n.Operand(real); factor != kNoValue) {
    TensorType type = n.TypeOf(factor);
    type.sizes.push_back(1);
    arguments[1] = Use{n.math.Emit("aten.unsqueeze.default", {Use{factor}, SymInt(-1)}, type)};
  }
  return n.ReturnPair(n.math.Emit(n.node().op, std::move(arguments), n.PairType()));
}

// Emits the node's product of one part of each operand.
ValueId ProductOfParts(ComplexNode& n, size_t first, bool imaginary, bool other_imaginary, const TensorType& type) {
  const DType dtype = type.dtype;
  const ComplexValue a = n.Operands(first, dtype), b = n.Operands(first + 1, dtype);
  const std::string product = n.node().op == "aten.addmm.default"     ? "aten.mm.default"
                              : n.node().op == "aten.addmv.default"   ? "aten.mv.default"
                              : n.node().op == "aten.baddbmm.default" ? "aten.bmm.default"
                                                                      : n.node().op;
  return n.math.Emit(product, {Use{imaginary ? a.imaginary : a.real}, Use{other_imaginary ? b.imaginary : b.real}},
                     type);
}

ComplexValue ProductOf(ComplexNode& n, size_t first, const TensorType& type) {
  const ValueId ac = ProductOfParts(n, first, false, false, type);
  const ValueId bd = ProductOfParts(n, first, true, true, type);
  const ValueId ad = ProductOfParts(n, first, false, true, type);
  const ValueId bc = ProductOfParts(n, first, true, false, type);
  return {n.math.Binary("sub", ac, bd), n.math.Binary("add", ad, bc)};
}

// (self, other, alpha)
bool Sum(ComplexNode& n) {
  const bool is_plain = !IsComplexNumber(n.node().arguments[0]) && !IsComplexNumber(n.node().arguments[1]) &&
                        !IsComplexNumber(n.node().arguments[2]);
  if (!is_plain || n.Operand(0) == kNoValue) return WeightedSum(n);
  const std::string name = n.node().op.substr(0, n.node().op.rfind('.'));
  if (n.Operand(1) != kNoValue) {
    return n.ReturnPair(
        n.math.Emit(name + ".Tensor", {Use{AsPair(n, 0)}, Use{AsPair(n, 1)}, n.node().arguments[2]}, n.PairType()));
  }
  // A real number has no imaginary part.
  const ValueId real =
      n.math.Emit(name + ".Scalar", {Use{n.Part(0, 0)}, n.node().arguments[1], n.node().arguments[2]}, n.PartType());
  const ValueId imaginary = n.Part(0, 1);
  return n.Return(real, imaginary);
}

// (self, other, alpha): other - alpha * self
bool Reverse(ComplexNode& n) {
  const ComplexValue subtrahend = Times(n, n.Operands(0), n.node().arguments[2]);
  return n.Return(n.math.Subtract(n.Operands(1), subtrahend));
}

bool Product(ComplexNode& n) {
  if (IsComplexNumber(n.node().arguments[1]) || IsComplexNumber(n.node().arguments[0])) {
    return n.Return(n.math.Multiply(n.Operands(0), n.Operands(1)));
  }
  if (!n.IsComplexOperand(1)) return Scale(n, 0, 1);
  if (!n.IsComplexOperand(0)) return Scale(n, 1, 0);
  const ComplexValue a = n.Operands(0);
  return n.Return(n.math.Multiply(a, n.Operands(1)));
}

bool Quotient(ComplexNode& n) {
  const bool is_by_real = !n.IsComplexOperand(1) && !IsComplexNumber(n.node().arguments[1]);
  if (is_by_real) return n.IsComplexOperand(0) && Scale(n, 0, 1);
  const ComplexValue a = n.Operands(0);
  return n.Return(n.math.Divide(a, n.Operands(1)));
}

bool MatrixProduct(ComplexNode& n) {
  if (!n.IsComplexOperand(0) || !n.IsComplexOperand(1)) return false;
  return n.Return(ProductOf(n, 0, n.PartType()));
}

// (self, a, b, beta, alpha)
bool AddMatrixProduct(ComplexNode& n) {
  if (!n.IsComplexOperand(1) || !n.IsComplexOperand(2)) return false;
  const ComplexValue product = Times(n, ProductOf(n, 1, n.PartType()), n.node().arguments[4]);
  if (NumberOf(n.node().arguments[3]) == std::pair(0.0, 0.0)) return n.Return(product);
  return n.Return(n.math.Add(Times(n, n.Operands(0), n.node().arguments[3]), product));
}

// (self, a, b, value)
bool AddProduct(ComplexNode& n) {
  const ComplexValue product = n.math.Multiply(n.Operands(1), n.Operands(2));
  return n.Return(n.math.Add(n.Operands(0), Times(n, product, n.node().arguments[3])));
}

bool AddQuotient(ComplexNode& n) {
  const ComplexValue quotient = n.math.Divide(n.Operands(1), n.Operands(2));
  return n.Return(n.math.Add(n.Operands(0), Times(n, quotient, n.node().arguments[3])));
}

// (self, end, weight)
bool Interpolate(ComplexNode& n) {
  const ComplexValue start = n.Operands(0);
  const ComplexValue way = n.math.Subtract(n.Operands(1), start);
  return n.Return(n.math.Add(start, n.math.Multiply(way, n.Operands(2))));
}

}  // namespace

absl::Span<const ComplexRuleRow> ArithmeticComplexRules() {
  static constexpr ComplexRuleRow kRows[] = {
      {"aten.add.Scalar", Sum},
      {"aten.add.Tensor", Sum},
      {"aten.addcdiv.default", AddQuotient},
      {"aten.addcmul.default", AddProduct},
      {"aten.addmm.default", AddMatrixProduct},
      {"aten.addmv.default", AddMatrixProduct},
      {"aten.baddbmm.default", AddMatrixProduct},
      {"aten.bmm.default", MatrixProduct},
      {"aten.div.Scalar", Quotient},
      {"aten.div.Tensor", Quotient},
      {"aten.dot.default", MatrixProduct},
      {"aten.lerp.Scalar", Interpolate},
      {"aten.lerp.Tensor", Interpolate},
      {"aten.mm.default", MatrixProduct},
      {"aten.mul.Scalar", Product},
      {"aten.mul.Tensor", Product},
      {"aten.mv.default", MatrixProduct},
      {"aten.rsub.Scalar", Reverse},
      {"aten.rsub.Tensor", Reverse},
      {"aten.sub.Scalar", Sum},
      {"aten.sub.Tensor", Sum},
  };
  return kRows;
}

}  // namespace cotan::aot
