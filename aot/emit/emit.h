// Writes an optimized graph as a method of the artifact.
#ifndef COTAN_AOT_EMIT_EMIT_H_
#define COTAN_AOT_EMIT_EMIT_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "aot/ir/graph.h"
#include "base/sym_int.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// The graph as a method: values, ops, inputs, outputs, state reads and updates,
// input updates, names. Inputs of the graph that the session owns (parameters,
// buffers, constants, hyperparameters, slots, accumulators, RNG) become state
// reads by name; tangents, saved values and user inputs become method inputs
// (for a backward: saved values first, then tangents). Outputs are written-back
// inputs, user outputs, intermediate bases, gradients, then saved values;
// mutated states and state updates become state updates. Effect tokens vanish: the
// order of ops is that of the effects. metadata, signature,
// input_binding, backward_method and rng_blocks are left to the caller. Equal
// graphs give equal bytes.
// InvalidArgument: a state that `states` lacks, or a type that differs from
// it; the message names it.
// Internal: a node that the runtime has no op for.
absl::StatusOr<serialization::Method> Emit(const Graph& graph, absl::Span<const serialization::State> states);

}  // namespace cotan::aot

#endif  // COTAN_AOT_EMIT_EMIT_H_
