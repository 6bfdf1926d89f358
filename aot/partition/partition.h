// Cuts a lowered joint graph (forward and backward in one) into the two
// programs of a method pair.
#ifndef COTAN_AOT_PARTITION_PARTITION_H_
#define COTAN_AOT_PARTITION_PARTITION_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "aot/graph/graph.h"

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

// The default partition: what depends on a tangent runs in the backward,
// everything else in the forward. A value that crosses is saved, except that
// views and draws of random numbers are repeated in the backward, as are
// cheap expressions of values which are saved or at hand anyway.
// InvalidArgument: the graph has no tangents.
absl::StatusOr<Partitioned> Partition(const Graph& joint);

// For the fused step: replaces the tangent of the loss, number `tangent_index`,
// by 1 and drops it from the inputs.
// InvalidArgument: there is no such tangent, it is no floating point scalar, or
// some gradient depends on another one.
absl::Status SeedLoss(Graph& joint, int tangent_index);

}  // namespace cotan::aot

#endif  // COTAN_AOT_PARTITION_PARTITION_H_
