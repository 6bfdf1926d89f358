// What a rule of complex_rules.h sees: one node with complex operands or results,
// the pairs that stand for complex values, and what to write its real form with.
#ifndef COTAN_AOT_LOWERING_COMPLEX_COMPLEX_NODE_H_
#define COTAN_AOT_LOWERING_COMPLEX_COMPLEX_NODE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "aot/ir/graph.h"
#include "aot/lowering/complex/complex_math.h"

namespace cotan::aot {

// By complex value: a real one with a last dimension of two.
using ComplexPairs = absl::flat_hash_map<ValueId, ValueId>;

// The dtype of the parts of a number.
DType PartOf(DType complex);

// A number in an argument, real and imaginary part.
std::optional<std::pair<double, double>> NumberOf(const Argument& argument);

// Whether it is a number with an imaginary part, even if that is 0.
bool IsComplexNumber(const Argument& argument);

// The types of what stands for a complex value.
TensorType PartType(const Graph& graph, ValueId complex);
TensorType PairType(const Graph& graph, ValueId complex);

// Operands are counted as arguments of the node. What is emitted stands in front
// of it; the return functions say what stands for its results from then on, and
// return true so that a rule can end with them.
class ComplexNode {
 public:
  // All outlive the object. `math` emits into `graph` in front of `at`.
  ComplexNode(const Node& node, Graph& graph, Graph::NodeList::iterator at, ComplexMath& math, ComplexPairs& pairs)
      : math(math), node_(node), graph_(graph), at_(at), pairs_(pairs) {}

  const Node& node() const { return node_; }
  bool IsComplex(ValueId id) const;
  const TensorType& TypeOf(ValueId id) const { return graph_.value(id).type; }

  // kNoValue: it is no tensor.
  ValueId Operand(size_t i) const;
  bool IsComplexOperand(size_t i) const { return IsComplex(Operand(i)); }
  ValueId Pair(size_t i) const { return pairs_.at(Operand(i)); }
  ValueId PairOf(ValueId complex) const { return pairs_.at(complex); }
  int64_t Rank(size_t i) const { return static_cast<int64_t>(TypeOf(Operand(i)).sizes.size()); }

  // Real (0) or imaginary (1) part of a complex operand, with the operand's sizes.
  ValueId Part(size_t i, int64_t part);
  ValueId PartOfValue(ValueId complex, int64_t part);

  // Operand `i`, a tensor of complex or real numbers or a number, to compute with
  // what has parts of `dtype`, or of the result's parts' dtype.
  ComplexValue Operands(size_t i, DType dtype);
  ComplexValue Operands(size_t i);

  const TensorType& ResultType() const { return TypeOf(node_.outputs[0]); }
  TensorType PartType() const { return aot::PartType(graph_, node_.outputs[0]); }
  TensorType PartTypeOf(ValueId complex) const { return aot::PartType(graph_, complex); }
  TensorType PairType() const { return aot::PairType(graph_, node_.outputs[0]); }

  // The node's op on other arguments: its results.
  std::vector<ValueId> Repeat(std::vector<Argument> arguments, std::vector<TensorType> types);

  // A complex result made of parts, which are expanded to its sizes.
  bool Return(ValueId real, ValueId imaginary);
  bool Return(ComplexValue value) { return Return(value.real, value.imaginary); }
  void ReturnParts(ValueId complex, ValueId real, ValueId imaginary);
  bool ReturnPair(ValueId pair);
  bool ReturnReal(ValueId value);
  // `node`, applied to the pair of its first operand.
  bool ReturnSame(Node node);

  ComplexMath& math;

 private:
  // A part with the sizes of the number that it is a part of.
  ValueId Expanded(ValueId part, ValueId complex);

  const Node& node_;
  Graph& graph_;
  const Graph::NodeList::iterator at_;
  ComplexPairs& pairs_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_LOWERING_COMPLEX_COMPLEX_NODE_H_
