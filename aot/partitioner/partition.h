// SPDX-License-Identifier: Apache-2.0

// Cuts a lowered joint graph (forward and backward in one) into the two
// programs of a method pair.
#ifndef COTAN_AOT_PARTITIONER_PARTITION_H_
#define COTAN_AOT_PARTITIONER_PARTITION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "aot/ir/graph.h"
#include "aot/partitioner/recompute_rules.h"

namespace cotan::aot {

// Forward and backward of a method pair.
//   forward:  inputs of the joint graph but the tangents; outputs: mutated
//             inputs, user outputs, saved values (OutputKind::kSaved; those
//             without_version_check last).
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

// How to choose what the forward saves.
enum class Partitioner : uint8_t {
  // The forward saves what the backward reads of it; nothing but views and constants is computed twice. Corresponds to
  // PyTorch's default_partition.
  kDefault,
  // A minimum cut: cheap nodes are computed again (recompute_rules.h) if fewer bytes are saved.
  // Corresponds to PyTorch's min_cut_rematerialization_partition.
  kMinCut,
};

struct PartitionOptions {
  Partitioner partitioner = Partitioner::kMinCut;
  // For kMinCut: share of the bytes, in [0, 1]. 1: what the minimum cut saves if only cheap nodes are recomputed; 0:
  // the least, for which all nodes but effects and checks may be recomputed; between: activation_budget.h.
  double activation_memory_budget = 1;
  // Overrides the partitioner for single nodes; effects still happen once. Null: no overrides.
  SavePolicyFunction save_policy = nullptr;
};

// Cuts `joint`: nodes that depend on a tangent run in the backward, and so do nodes whose results are not saved.
// Repeated nodes come right before their first reader in the backward; "(recomputed)" is appended to their source.
// InvalidArgument: the graph has no tangents, the budget is not a number in [0, 1], or it is not 1 without kMinCut.
absl::StatusOr<Partitioned> Partition(const Graph& joint, const PartitionOptions& options = {});

// Returns InvalidArgument if Partition() refuses the options.
absl::Status CheckPartitionOptions(const PartitionOptions& options);

// Replaces the tangent of the loss, number `tangent_index`, by 1 and removes it from the inputs;
// used for methods that run forward and backward in one call.
// InvalidArgument: there is no such tangent, it is not a floating point scalar, or a gradient
// depends on another tangent.
absl::Status SeedLoss(Graph& joint, int tangent_index);

}  // namespace cotan::aot

#endif  // COTAN_AOT_PARTITIONER_PARTITION_H_
