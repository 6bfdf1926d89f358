// What a row of the op table sees: one aten node, its operands already
// lowered, and the builder to write with.
#ifndef COTAN_AOT_LOWERING_OPS_LOWERING_H_
#define COTAN_AOT_LOWERING_OPS_LOWERING_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "aot/ir/builder.h"
#include "aot/ir/graph.h"
#include "aot/lowering/ops/op_row.h"

namespace cotan::aot {

// Accessors count the node's arguments. An argument of another kind than asked
// for is an error, and so is an operand that the builder refuses. The first error is
// kept, and Lower() returns it: rows go on with defaults and tensors without meaning,
// and need not check.
class Lowering {
 public:
  // Both outlive the object.
  Lowering(const Graph* from, Builder* builder) : b(*builder), from_(from) {}

  // What rows write with.
  Builder& b;

  // Lowers one node with its row.
  // Unimplemented: no row, or arguments the row does not cover.
  // Internal: the results have other types than the tracer recorded.
  absl::Status Lower(const Node& node, const OpRow& row);

  // From values of the source graph to values of the new one.
  void Map(ValueId from, ValueId to) { mapped_[from] = to; }
  ValueId Mapped(ValueId from) const { return mapped_.at(from); }

  const Node& node() const { return *node_; }
  int num_arguments() const { return static_cast<int>(node_->arguments.size()); }
  bool is_none(int i) const;

  Tensor tensor(int i);           // a number becomes a literal
  Tensor optional_tensor(int i);  // undefined for None
  std::vector<Tensor> tensors(int i);
  std::vector<Tensor> optional_tensors(int i);
  double number(int i);
  Tensor literal(int i);  // a number, as a literal of its own kind
  bool flag(int i);
  SymInt size(int i);
  int64_t integer(int i);
  SymIntVector sizes(int i);
  std::vector<int64_t> integers(int i);  // one integer counts as a list of one
  std::vector<bool> flags(int i);
  std::string text(int i);  // "" for None
  std::optional<int64_t> optional_integer(int i);

  // As the tracer recorded it for result `k`.
  const TensorType& result(int k = 0) const;
  bool has_result(int k) const { return node_->outputs[static_cast<size_t>(k)] != kNoValue; }

  // Operand i cast to the dtype of result 0.
  Tensor operand(int i) { return b.Cast(tensor(i), result().dtype); }
  // Operand i, in f32 if it is f16 or bf16: for what must not be rounded midway.
  Tensor wide(int i);
  Tensor wide_optional(int i);  // undefined for None
  // Operands i and j cast to their common dtype by ATen's promotion.
  std::pair<Tensor, Tensor> promoted(int i, int j);

  // The results, in order; undefined tensors for absent ones. A result in a
  // smaller broadcastable shape is expanded.
  absl::Status Return(Tensor result) { return ReturnAll({std::move(result)}); }
  absl::Status ReturnAll(const std::vector<Tensor>& results);
  // The same after a cast of each result to its recorded dtype.
  absl::Status ReturnCast(std::vector<Tensor> results);
  absl::Status Unsupported(const std::string& what) const;

 private:
  void Mismatch(int i, const char* expected);

  const Graph* from_;
  const Node* node_ = nullptr;
  absl::flat_hash_map<ValueId, ValueId> mapped_;
};

// ATen's promotion of two tensors (a 0-d one yields to one with dimensions of
// the same or a higher category; a literal yields to both).
DType PromoteTypes(DType a, DType b);

}  // namespace cotan::aot

#endif  // COTAN_AOT_LOWERING_OPS_LOWERING_H_
