// SPDX-License-Identifier: Apache-2.0

#include "aot/ir/collective_node.h"

#include <cstddef>
#include <string>
#include <utility>
#include <variant>

namespace cotan::aot {
namespace {

using serialization::Collective;

// Positions among the arguments.
constexpr size_t kTensors = 0, kFunction = 1, kMean = 2, kRanks = 3, kStarts = 4;

}  // namespace

std::vector<Tensor> Combine(Builder& b, Collective::Function function, absl::Span<const Tensor> tensors, bool mean,
                            int64_t ranks, absl::Span<const TensorType> types) {
  std::vector<Use> uses;
  for (const Tensor& tensor : tensors) uses.push_back({tensor.id()});
  return b.EmitNode(std::string(kCollectiveOp),
                    {std::move(uses), SymInt(static_cast<int64_t>(function)), mean, SymInt(ranks), /*starts=*/false},
                    types, /*expr=*/nullptr);
}

std::vector<Tensor> AllReduce(Builder& b, absl::Span<const Tensor> tensors, bool mean) {
  std::vector<TensorType> types;
  for (const Tensor& tensor : tensors) types.push_back({tensor.dtype(), tensor.sizes(), {}});
  return Combine(b, Collective::ALL_REDUCE, tensors, mean, /*ranks=*/0, types);
}

Collective CollectiveOf(const Node& node) {
  Collective op;
  op.set_function(static_cast<Collective::Function>(std::get<SymInt>(node.arguments[kFunction]).constant()));
  op.set_mean(std::get<bool>(node.arguments[kMean]));
  op.set_ranks(std::get<SymInt>(node.arguments[kRanks]).constant());
  op.set_starts(std::get<bool>(node.arguments[kStarts]));
  return op;
}

Node StartOf(const Node& node, ValueId token) {
  Node start = node;
  start.arguments[kStarts] = true;
  start.outputs = {token};
  return start;
}

Node WaitOf(const Node& node, ValueId token) {
  Node wait = node;
  wait.arguments[kTensors] = std::vector<Use>{{token}};
  wait.arguments[kFunction] = SymInt(static_cast<int64_t>(Collective::WAIT));
  wait.arguments[kMean] = false;
  return wait;
}

}  // namespace cotan::aot
