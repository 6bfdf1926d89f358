// SPDX-License-Identifier: Apache-2.0

// The op of lowered graphs that combines values of several ranks (Collective in program.proto). All ranks run the same
// graph, so that passes may move and merge its nodes as they do others.
#ifndef COTAN_AOT_IR_COLLECTIVE_NODE_H_
#define COTAN_AOT_IR_COLLECTIVE_NODE_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "aot/ir/builder.h"
#include "aot/ir/graph.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// cotan.collective(Tensor[] tensors, int function, bool mean, int ranks, bool starts) -> Tensor...
inline constexpr absl::string_view kCollectiveOp = "cotan.collective";

// Appends a collective; its results have the given types.
std::vector<Tensor> Combine(Builder& b, serialization::Collective::Function function, absl::Span<const Tensor> tensors,
                            bool mean, int64_t ranks, absl::Span<const TensorType> types);
// Appends an ALL_REDUCE of any number of ranks. Returns the sum, or the mean, of each tensor over all ranks.
std::vector<Tensor> AllReduce(Builder& b, absl::Span<const Tensor> tensors, bool mean);

// Returns the attributes of a node with kCollectiveOp.
serialization::Collective CollectiveOf(const Node& node);

// Returns the node that starts the collective and has the result `token`, and the one that waits for it and has the
// results of `node`.
Node StartOf(const Node& node, ValueId token);
Node WaitOf(const Node& node, ValueId token);

}  // namespace cotan::aot

#endif  // COTAN_AOT_IR_COLLECTIVE_NODE_H_
