// SPDX-License-Identifier: Apache-2.0

// Functions of complex numbers in terms of real ones.
#ifndef COTAN_AOT_LOWERING_COMPLEX_COMPLEX_MATH_H_
#define COTAN_AOT_LOWERING_COMPLEX_COMPLEX_MATH_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Real and imaginary part: values of the same dtype, whose sizes broadcast.
struct ComplexValue {
  ValueId real = kNoValue;
  ValueId imaginary = kNoValue;
};

// Inserts nodes (aten.*) in front of `at` that compute functions of parts.
// Results have the sizes that the operands broadcast to.
class ComplexMath {
 public:
  // `graph` and `at` outlive the object.
  ComplexMath(Graph& graph, const Graph::NodeList::iterator& at) : graph_(graph), at_(at) {}

  // Sets Node::source of the nodes emitted from now on.
  void set_source(std::string source) { source_ = std::move(source); }

  // Functions of real values. Binary() also takes comparison ops.
  ValueId Emit(std::string op, std::vector<Argument> arguments, TensorType type);
  ValueId Unary(absl::string_view op, ValueId x);
  ValueId Binary(absl::string_view op, ValueId a, ValueId b);
  ValueId Compare(absl::string_view op, ValueId a, double b);
  ValueId Scale(ValueId x, double factor);
  ValueId Where(ValueId condition, ValueId a, ValueId b);
  ValueId Full(double value, TensorType type);
  ValueId Convert(ValueId x, DType dtype);
  // Returns a constant that can be an operand of an op with `x`: 0-d, of x's dtype.
  ValueId NumberLike(double value, ValueId x);

  ComplexValue Add(ComplexValue a, ComplexValue b);
  ComplexValue Subtract(ComplexValue a, ComplexValue b);
  ComplexValue Multiply(ComplexValue a, ComplexValue b);
  ComplexValue Divide(ComplexValue a, ComplexValue b);
  ComplexValue ScaleBy(ComplexValue z, ValueId factor);
  ComplexValue Negate(ComplexValue z);
  ComplexValue Select(ValueId condition, ComplexValue a, ComplexValue b);
  ComplexValue Constant(double real, double imaginary, ValueId like);

  ValueId Magnitude(ComplexValue z);
  ValueId Angle(ComplexValue z);
  // Returns true where `z` is not 0; NaN counts as not 0.
  ValueId IsNotZero(ComplexValue z);
  ComplexValue Reciprocal(ComplexValue z);
  ComplexValue Exp(ComplexValue z);
  ComplexValue Log(ComplexValue z);
  ComplexValue Sqrt(ComplexValue z);
  ComplexValue Sin(ComplexValue z);
  ComplexValue Cos(ComplexValue z);
  ComplexValue Tan(ComplexValue z);
  ComplexValue Sinh(ComplexValue z);
  ComplexValue Cosh(ComplexValue z);
  ComplexValue Tanh(ComplexValue z);
  ComplexValue Sigmoid(ComplexValue z);
  ComplexValue Power(ComplexValue z, ComplexValue exponent);
  ComplexValue Power(ComplexValue z, double exponent);

 private:
  const TensorType& TypeOf(ValueId x) const { return graph_.value(x).type; }

  Graph& graph_;
  const Graph::NodeList::iterator& at_;
  std::string source_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_LOWERING_COMPLEX_COMPLEX_MATH_H_
