// SPDX-License-Identifier: Apache-2.0

// Interface for the rows of the op table: one aten node, its lowered operands, and the builder.
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

// Lowers nodes one at a time. Accessors take the index of an argument of the node. An argument of
// another kind than the accessor's is an error, and so is an operand that the builder rejects.
// Lower() returns the first error; rows need not check for errors, since accessors return defaults
// and undefined tensors after one.
class Lowering {
 public:
  // Both outlive the object.
  Lowering(const Graph* from, Builder* builder) : b(*builder), from_(from) {}

  // Builder of the new graph.
  Builder& b;

  // Lowers one node with its row.
  // Unimplemented: no row, or arguments the row does not cover.
  // Internal: the results have other types than the tracer recorded.
  absl::Status Lower(const Node& node, const OpRow& row);

  // Maps values of the source graph to values of the new graph.
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

  // Returns the type that the tracer recorded for result `k`.
  const TensorType& result(int k = 0) const;
  bool has_result(int k) const { return node_->outputs[static_cast<size_t>(k)] != kNoValue; }

  // Returns operand i cast to the dtype of result 0.
  Tensor operand(int i) { return b.Cast(tensor(i), result().dtype); }
  // Returns operand i cast to the dtype of result 0, or to f32 if that is f16 or bf16.
  Tensor wide_operand(int i);
  // Returns x, cast to f32 if it is f16 or bf16.
  Tensor widened(const Tensor& x);
  // Returns operand i, cast to f32 if it is f16 or bf16, so that intermediate results are not
  // rounded.
  Tensor wide(int i);
  Tensor wide_optional(int i);  // undefined for None
  // Returns operands i and j cast to their common dtype by ATen's promotion.
  std::pair<Tensor, Tensor> promoted(int i, int j);

  // Sets the results of the node, in order; undefined tensors stand for absent results. A result of
  // a smaller broadcastable shape is expanded.
  absl::Status Return(Tensor result) { return ReturnAll({std::move(result)}); }
  absl::Status ReturnAll(const std::vector<Tensor>& results);
  // Casts each result to its recorded dtype, then sets the results as ReturnAll() does.
  absl::Status ReturnCast(std::vector<Tensor> results);
  absl::Status Unsupported(const std::string& what) const;

 private:
  void Mismatch(int i, const char* expected);

  const Graph* from_;
  const Node* node_ = nullptr;
  absl::flat_hash_map<ValueId, ValueId> mapped_;
};

// Returns the dtype of ATen's promotion of two tensors' dtypes.
DType PromoteTypes(DType a, DType b);

}  // namespace cotan::aot

#endif  // COTAN_AOT_LOWERING_OPS_LOWERING_H_
