// SPDX-License-Identifier: Apache-2.0

#include "aot/lowering/complex/complex_node.h"

#include <variant>

namespace cotan::aot {

DType PartOf(DType complex) { return complex == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64; }

std::optional<std::pair<double, double>> NumberOf(const Argument& argument) {
  if (const auto* value = std::get_if<double>(&argument)) return std::pair(*value, 0.0);
  if (const auto* value = std::get_if<bool>(&argument)) return std::pair(*value ? 1.0 : 0.0, 0.0);
  if (const auto* value = std::get_if<SymInt>(&argument); value != nullptr && value->is_constant()) {
    return std::pair(static_cast<double>(value->constant()), 0.0);
  }
  if (const auto* parts = std::get_if<std::vector<double>>(&argument); parts != nullptr && parts->size() == 2) {
    return std::pair((*parts)[0], (*parts)[1]);
  }
  return std::nullopt;
}

bool IsComplexNumber(const Argument& argument) { return std::holds_alternative<std::vector<double>>(argument); }

TensorType PartType(const Graph& graph, ValueId complex) {
  TensorType type = graph.value(complex).type;
  type.dtype = PartOf(type.dtype);
  return type;
}

TensorType PairType(const Graph& graph, ValueId complex) {
  TensorType type = PartType(graph, complex);
  type.sizes.push_back(2);
  return type;
}

bool ComplexNode::IsComplex(ValueId id) const { return id != kNoValue && cotan::IsComplex(TypeOf(id).dtype); }

ValueId ComplexNode::Operand(size_t i) const {
  const Use* use = std::get_if<Use>(&node_.arguments[i]);
  return use == nullptr ? kNoValue : use->value;
}

ValueId ComplexNode::Part(size_t i, int64_t part) { return PartOfValue(Operand(i), part); }

ValueId ComplexNode::PartOfValue(ValueId complex, int64_t part) {
  return math.Emit("aten.select.int", {Use{PairOf(complex)}, SymInt(-1), SymInt(part)}, aot::PartType(graph_, complex));
}

ComplexValue ComplexNode::Operands(size_t i, DType dtype) {
  if (IsComplexOperand(i)) return {math.Convert(Part(i, 0), dtype), math.Convert(Part(i, 1), dtype)};
  if (Operand(i) != kNoValue) return {math.Convert(Operand(i), dtype), math.Full(0, {dtype, {}, {}})};
  const auto [real, imaginary] = NumberOf(node_.arguments[i]).value_or(std::pair(0.0, 0.0));
  return {math.Full(real, {dtype, {}, {}}), math.Full(imaginary, {dtype, {}, {}})};
}

ComplexValue ComplexNode::Operands(size_t i) { return Operands(i, PartOf(ResultType().dtype)); }

std::vector<ValueId> ComplexNode::Repeat(std::vector<Argument> arguments, std::vector<TensorType> types) {
  return graph_.InsertNode(at_, node_.op, std::move(arguments), std::move(types), node_.source).outputs;
}

bool ComplexNode::Return(ValueId real, ValueId imaginary) {
  ReturnParts(node_.outputs[0], real, imaginary);
  return true;
}

void ComplexNode::ReturnParts(ValueId complex, ValueId real, ValueId imaginary) {
  const std::vector<Use> parts = {Use{Expanded(real, complex)}, Use{Expanded(imaginary, complex)}};
  pairs_[complex] = math.Emit("aten.stack.default", {parts, SymInt(-1)}, aot::PairType(graph_, complex));
}

bool ComplexNode::ReturnPair(ValueId pair) {
  pairs_[node_.outputs[0]] = pair;
  return true;
}

bool ComplexNode::ReturnReal(ValueId value) {
  graph_.ReplaceAllUses(node_.outputs[0], value);
  return true;
}

bool ComplexNode::ReturnSame(Node node) {
  node.arguments[0] = Use{Pair(0)};
  return ReturnPair(math.Emit(std::move(node.op), std::move(node.arguments), PairType()));
}

ValueId ComplexNode::Expanded(ValueId part, ValueId complex) {
  const TensorType type = aot::PartType(graph_, complex);
  part = math.Convert(part, type.dtype);
  if (TypeOf(part).sizes == type.sizes) return part;
  const std::vector<SymInt> sizes(type.sizes.begin(), type.sizes.end());
  return math.Emit("aten.expand.default", {Use{part}, sizes, false}, type);
}

}  // namespace cotan::aot
