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

// The two programs.
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

// What becomes of a value of the forward that the backward reads.
enum class SavePolicy : uint8_t {
  kDefault,
  kSave,
  kRecompute,  // from values of which each again is saved or computed
};

// Chooses for the results of `node`, one of `joint`, which is lowered
// (Graph: prim.* and cotan.*); `node.source` tells the module that it is of. What
// PyTorch's selective checkpointing calls a policy.
using SavePolicyFunction = std::function<SavePolicy(const Graph& joint, const Node& node)>;

// What depends on a tangent runs in the backward, everything else in the forward.
// By default a value that crosses is saved, except that views and draws of random
// numbers are repeated in the backward, as are cheap expressions of values which
// are saved or at hand anyway. `policy`, if not null, is asked first; effects
// happen once all the same.
// InvalidArgument: the graph has no tangents.
absl::StatusOr<Partitioned> Partition(const Graph& joint, const SavePolicyFunction& policy = nullptr);

// For the fused step: replaces the tangent of the loss, number `tangent_index`,
// by 1 and drops it from the inputs.
// InvalidArgument: there is no such tangent, it is no floating point scalar, or
// some gradient depends on another one.
absl::Status SeedLoss(Graph& joint, int tangent_index);

}  // namespace cotan::aot

#endif  // COTAN_AOT_PARTITIONER_PARTITION_H_
