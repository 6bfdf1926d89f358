// SPDX-License-Identifier: Apache-2.0

// Interface for the rules of complex_rules.h: one node with complex operands or results, the pairs
// that stand for complex values, and functions that emit the real form.
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

// Maps a complex value to a real one with a last dimension of size 2.
using ComplexPairs = absl::flat_hash_map<ValueId, ValueId>;

// Returns the dtype of the real and imaginary part of a complex dtype.
DType PartOf(DType complex);

// Returns the real and imaginary part of a number in an argument; none if it is not a number.
std::optional<std::pair<double, double>> NumberOf(const Argument& argument);

// Returns true if the argument is a complex number, even if its imaginary part is 0.
bool IsComplexNumber(const Argument& argument);

// Return the type of one part of a complex value, and of the pair that stands for it.
TensorType PartType(const Graph& graph, ValueId complex);
TensorType PairType(const Graph& graph, ValueId complex);

// One node under rewrite. Operands are named by the index of the argument. New nodes are inserted
// before the node. The Return functions set the values that stand for its results, and return true
// so that a rule can end with them.
class ComplexNode {
 public:
  // All arguments outlive the object. `math` emits into `graph` before `at`.
  ComplexNode(const Node& node, Graph& graph, Graph::NodeList::iterator at, ComplexMath& math, ComplexPairs& pairs)
      : math(math), node_(node), graph_(graph), at_(at), pairs_(pairs) {}

  const Node& node() const { return node_; }
  bool IsComplex(ValueId id) const;
  const TensorType& TypeOf(ValueId id) const { return graph_.value(id).type; }

  // Returns argument `i`; kNoValue if it is not a tensor.
  ValueId Operand(size_t i) const;
  bool IsComplexOperand(size_t i) const { return IsComplex(Operand(i)); }
  ValueId Pair(size_t i) const { return pairs_.at(Operand(i)); }
  ValueId PairOf(ValueId complex) const { return pairs_.at(complex); }
  int64_t Rank(size_t i) const { return static_cast<int64_t>(TypeOf(Operand(i)).sizes.size()); }

  // Returns the real (`part` 0) or imaginary (`part` 1) part of a complex operand, with the
  // operand's sizes.
  ValueId Part(size_t i, int64_t part);
  ValueId PartOfValue(ValueId complex, int64_t part);

  // Returns the parts of argument `i`, a complex or real tensor or a number, in `dtype`, by default
  // the dtype of the result's parts.
  ComplexValue Operands(size_t i, DType dtype);
  ComplexValue Operands(size_t i);

  const TensorType& ResultType() const { return TypeOf(node_.outputs[0]); }
  TensorType PartType() const { return aot::PartType(graph_, node_.outputs[0]); }
  TensorType PartTypeOf(ValueId complex) const { return aot::PartType(graph_, complex); }
  TensorType PairType() const { return aot::PairType(graph_, node_.outputs[0]); }

  // Emits the node's op on other arguments and returns its results.
  std::vector<ValueId> Repeat(std::vector<Argument> arguments, std::vector<TensorType> types);

  // Sets the complex result from its parts, which are expanded to its sizes.
  bool Return(ValueId real, ValueId imaginary);
  bool Return(ComplexValue value) { return Return(value.real, value.imaginary); }
  void ReturnParts(ValueId complex, ValueId real, ValueId imaginary);
  bool ReturnPair(ValueId pair);
  bool ReturnReal(ValueId value);
  // Emits `node` on the pair of its first operand and sets the pair as the result.
  bool ReturnSame(Node node);

  ComplexMath& math;

 private:
  // Returns `part` expanded to the sizes of `complex`.
  ValueId Expanded(ValueId part, ValueId complex);

  const Node& node_;
  Graph& graph_;
  const Graph::NodeList::iterator at_;
  ComplexPairs& pairs_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_LOWERING_COMPLEX_COMPLEX_NODE_H_
