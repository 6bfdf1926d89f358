// SPDX-License-Identifier: Apache-2.0

// Cuts a lowered joint graph (forward and backward in one) into the two
// programs of a method pair.
#ifndef COTAN_AOT_PARTITIONER_PARTITION_H_
#define COTAN_AOT_PARTITIONER_PARTITION_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Forward and backward of a method pair.
//   forward:  inputs of the joint graph but the tangents; outputs: mutated
//             inputs, user outputs, saved values (OutputKind::kSaved).
//   backward: inputs: saved values (InputKind::kSaved, same order), tangents,
//             and those parameters, buffers, constants and the RNG state that
//             it reads and that the forward does not mutate; outputs: the
//             gradients, and new contents of inputs that it writes
//             (kInputUpdate): of states, and of user inputs, which are saved as
//             they are.
struct Partitioned {
  Graph forward;
  Graph backward;
};

// How the backward gets a value of the forward.
enum class SavePolicy : uint8_t {
  kDefault,
  kSave,
  kRecompute,  // from operands, which in turn are saved or recomputed
};

// Returns the policy for the results of `node`, a node of the lowered graph `joint` (prim.* and
// cotan.*). `PrimOpOf(node)` (prim_node.h) is its op, `PrimInfo(op).cost` the op's cost class, and
// `node.source` names its module. Corresponds to the policy function of PyTorch's selective
// activation checkpointing.
using SavePolicyFunction = std::function<SavePolicy(const Graph& joint, const Node& node)>;

// Cuts `joint`: nodes that depend on a tangent run in the backward, all others in the forward. By
// default a value that the backward reads is saved; views, random draws, and cheap expressions of
// values that are available in the backward anyway are recomputed. `policy`, if not null, overrides
// this; effects still happen once.
// InvalidArgument: the graph has no tangents.
absl::StatusOr<Partitioned> Partition(const Graph& joint, const SavePolicyFunction& policy = nullptr);

// Replaces the tangent of the loss, number `tangent_index`, by 1 and removes it from the inputs;
// used for methods that run forward and backward in one call.
// InvalidArgument: there is no such tangent, it is not a floating point scalar, or a gradient
// depends on another tangent.
absl::Status SeedLoss(Graph& joint, int tangent_index);

}  // namespace cotan::aot

#endif  // COTAN_AOT_PARTITIONER_PARTITION_H_
