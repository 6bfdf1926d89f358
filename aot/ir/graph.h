// SPDX-License-Identifier: Apache-2.0

// The compiler's graph: a functional, straight-line program over tensors.
//
// It has three dialects, distinguished by the prefix of a node's op:
//   aten.*   what the tracer records: "aten.add.Tensor", the schema's name and
//            overload ("default" if it has none), arguments in schema order
//            with defaults filled in. Functional ops and views only. A Python
//            or C++ number that ATen wrapped into a 0-d tensor is recorded as
//            the number.
//   prim.*   what lowering produces: one op for each view and for each op of
//            the runtime that has its own kernel ("prim.matmul"). prim_ops.h
//            lists them, prim_node.h reads their nodes.
//   cotan.*  "cotan.expr", an expression program: after lowering one pointwise
//            function or reduction, after fusion a chain of them; and the
//            tracer's own ops ("cotan.random_uniform.default",
//            "cotan.effect.default").
//
// Effects, cotan.effect and prim.effect, take a token (bool[0]) and return another. The tokens
// order them and keep them live: the last token is an output of the graph.
//
// Text form (text.h parses and prints it):
//
//   graph @train_step {
//     %0: f32[32,784] = user_input 0 "input.0"
//     %1: f32[10,784] = parameter 0 "weight"
//     %2: f32[784,10] = aten.t.default(%1)
//     %3: f32[32,10] = aten.mm.default(%0, %2)
//     user_output 0 "output.0" = %3
//   }
#ifndef COTAN_AOT_IR_GRAPH_H_
#define COTAN_AOT_IR_GRAPH_H_

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "base/sym_int.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// Index into Graph::values().
using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;  // an absent optional tensor

// Dtype and sizes of a tensor value. Graphs are functional, so values have no strides; `dim_order`
// is the order of dimensions in memory that layout assignment chose (outermost first, empty =
// row-major).
struct TensorType {
  DType dtype = DType::kUndefined;
  SymIntVector sizes;
  DimVector dim_order;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

struct None {
  friend bool operator==(None, None) { return true; }
};

// A use of a graph value; a struct, to distinguish it from an integer in Argument.
struct Use {
  ValueId value = kNoValue;
  friend bool operator==(Use, Use) = default;
};

// One argument of a node. A tensor list is a vector<Use>; an absent tensor in
// it is kNoValue, an absent single tensor is None.
using Argument = std::variant<None, Use, std::vector<Use>, bool, SymInt, double, std::string, DType,
                              std::vector<SymInt>, std::vector<double>, std::vector<bool>>;

// The op of expression programs.
inline constexpr absl::string_view kExprOp = "cotan.expr";

struct Node {
  std::string op;
  std::vector<Argument> arguments;
  // Results; kNoValue for one that the op leaves undefined.
  std::vector<ValueId> outputs;
  // Module path ("layer1.0") of the op, or of the op whose gradient it computes; for messages.
  std::string source;
  // The instructions of cotan.expr and prim.matmul_epilogue; null for other ops. FN_INPUT indexes
  // of cotan.expr count the tensor arguments.
  std::shared_ptr<const serialization::Expr> expr;
};

struct Value {
  TensorType type;
  std::string name;  // in the model, or ""
};

// Kind of a graph input: the role of the tensor that the caller passes.
enum class InputKind : uint8_t {
  kParameter,
  kBuffer,
  kUserInput,
  kTangent,         // gradient number `index` that enters the backward
  kSaved,           // saved value number `index` of the forward graph
  kConstant,        // a tensor captured while tracing
  kRngState,        // i64[2]: Philox seed, offset
  kHyperparameter,  // 0-d, of the optimizer
  kOptimizerSlot,
  kGradientAccumulator,
  kToken,  // of effects: 0 in the forward, 1 in the backward
};

// Kind of a graph output: the use that the caller makes of it.
enum class OutputKind : uint8_t {
  kUserOutput,
  kMutatedInput,      // new content of graph input `index`: returned, or the state's
  kGradient,          // gradient of graph input `index` of the joint graph
  kSaved,             // for the backward graph
  kStateUpdate,       // new content of the state `name`
  kIntermediateBase,  // base number `index` of user outputs that are views
  kInputUpdate,       // new content of graph input `index`: the program writes it
  kInputStorage,      // content of the new storage of graph input `index`
  kSharedStorage,     // new content of graph input `index`, which gets the storage of another input
  kBackwardUpdate,    // of a joint graph: new content that the backward gives graph input `index`
  kToken,             // of the last effect: 0 of the forward, 1 of the backward
};

// Returns true if the program itself writes the final content or storage of the graph input.
constexpr bool UpdatesInput(OutputKind kind) {
  return kind == OutputKind::kInputUpdate || kind == OutputKind::kInputStorage || kind == OutputKind::kSharedStorage;
}

struct GraphInput {
  ValueId value = kNoValue;
  InputKind kind = InputKind::kUserInput;
  int index = 0;     // by kind; otherwise position among inputs of this kind
  std::string name;  // state name, or the user's name ("input.0")
  // If it is saved for the backward: its version is not checked.
  bool without_version_check = false;
};

struct GraphOutput {
  // kNoValue: a gradient that does not exist (the input was not used).
  ValueId value = kNoValue;
  OutputKind kind = OutputKind::kUserOutput;
  int index = 0;
  std::string name;
  // If it is saved for the backward: its version is not checked.
  bool without_version_check = false;
};

// Nodes in execution order: a node uses only inputs and results of earlier
// nodes (Verify() in verifier.h). Movable, copyable (a deep copy); not
// thread-safe.
class Graph {
 public:
  using NodeList = std::list<Node>;

  std::string name;

  ValueId AddValue(TensorType type, std::string value_name = "");
  // Adds a graph input with a new value and returns it.
  ValueId AddInput(TensorType type, InputKind kind, int index, std::string input_name);
  void AddOutput(ValueId value, OutputKind kind, int index, std::string output_name);

  // Inserts a node before `position` (end() = last) with a new value for each
  // type, and returns it.
  Node& InsertNode(NodeList::iterator position, std::string op, std::vector<Argument> arguments,
                   absl::Span<const TensorType> output_types, std::string source = "");

  const Value& value(ValueId id) const { return values_[static_cast<size_t>(id)]; }
  Value& value(ValueId id) { return values_[static_cast<size_t>(id)]; }
  int num_values() const { return static_cast<int>(values_.size()); }

  const NodeList& nodes() const { return nodes_; }
  NodeList& nodes() { return nodes_; }
  const std::vector<GraphInput>& inputs() const { return inputs_; }
  std::vector<GraphInput>& inputs() { return inputs_; }
  const std::vector<GraphOutput>& outputs() const { return outputs_; }
  std::vector<GraphOutput>& outputs() { return outputs_; }

  // Replaces `from` by `to` in all nodes and outputs.
  void ReplaceAllUses(ValueId from, ValueId to);

  // Renumbers values densely in order of definition and drops unused ones.
  // Invalidates all ValueIds.
  void Compact();

 private:
  // A deque: references to values stay valid when values are added.
  std::deque<Value> values_;
  NodeList nodes_;
  std::vector<GraphInput> inputs_;
  std::vector<GraphOutput> outputs_;
};

// Returns the tensor operands of a node in order: kNoValue for absent members of lists, nothing for
// None arguments.
std::vector<ValueId> TensorOperands(const Node& node);

}  // namespace cotan::aot

#endif  // COTAN_AOT_IR_GRAPH_H_
