// SPDX-License-Identifier: Apache-2.0

#include "aot/ir/builder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace cotan::aot {

SymInt NumElementsOf(const SymIntVector& sizes) {
  SymInt product = 1;
  for (const SymInt& size : sizes) product = product * size;
  return product;
}

const TensorType& Tensor::type() const {
  static const TensorType* const kNone = new TensorType();
  return is_literal() ? *kNone : builder_->graph().value(id_).type;
}

Tensor operator+(const Tensor& a, const Tensor& b) { return a.builder_->Binary(serialization::FN_ADD, a, b); }
Tensor operator-(const Tensor& a, const Tensor& b) { return a.builder_->Binary(serialization::FN_SUB, a, b); }
Tensor operator*(const Tensor& a, const Tensor& b) { return a.builder_->Binary(serialization::FN_MUL, a, b); }
Tensor operator/(const Tensor& a, const Tensor& b) { return a.builder_->Binary(serialization::FN_DIV, a, b); }
Tensor operator-(const Tensor& a) { return a.builder_->Unary(serialization::FN_NEG, a); }

Builder::Builder(Graph* graph) : graph_(graph) {
  for (const Node& node : graph->nodes()) {
    for (const ValueId output : node.outputs) producers_[output] = &node;
  }
}

void Builder::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
}

Tensor Builder::Value(ValueId id) {
  Tensor tensor;
  tensor.builder_ = this;
  tensor.id_ = id;
  return tensor;
}

Tensor Builder::Literal(double number) {
  Tensor tensor;
  tensor.builder_ = this;
  tensor.is_float_ = true;
  tensor.number_ = number;
  return tensor;
}

Tensor Builder::Literal(SymInt integer) {
  Tensor tensor;
  tensor.builder_ = this;
  tensor.integer_ = std::move(integer);
  return tensor;
}

const Node* Builder::Producer(ValueId id) const {
  const auto it = producers_.find(id);
  return it == producers_.end() ? nullptr : it->second;
}

int64_t Builder::WrapDim(int64_t dim, int rank) {
  const int64_t bound = std::max(rank, 1);
  if (dim < -bound || dim >= bound) {
    Fail(absl::InternalError(absl::StrCat("dimension ", dim, " of a tensor of rank ", rank)));
    return 0;
  }
  return dim < 0 ? dim + bound : dim;
}

std::vector<Tensor> Builder::Emit(PrimOp op, std::vector<Argument> arguments, absl::Span<const TensorType> types) {
  return EmitNode(std::string(PrimName(op)), std::move(arguments), types, nullptr);
}

std::vector<Tensor> Builder::EmitNode(std::string op, std::vector<Argument> arguments,
                                      absl::Span<const TensorType> types,
                                      std::shared_ptr<const serialization::Expr> expr) {
  Node& node = graph_->InsertNode(graph_->nodes().end(), std::move(op), std::move(arguments), types, source_);
  node.expr = std::move(expr);
  std::vector<Tensor> results;
  for (const ValueId output : node.outputs) {
    producers_[output] = &node;
    results.push_back(Value(output));
  }
  return results;
}

}  // namespace cotan::aot
