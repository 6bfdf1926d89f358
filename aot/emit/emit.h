// SPDX-License-Identifier: Apache-2.0

// Converts an optimized graph to a method of the artifact.
#ifndef COTAN_AOT_EMIT_EMIT_H_
#define COTAN_AOT_EMIT_EMIT_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "aot/ir/graph.h"
#include "base/sym_int.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// Returns the graph as a method: values, ops, inputs, outputs, state reads and updates, input
// updates, names. Inputs of the graph that the session owns (parameters, buffers, constants,
// hyperparameters, slots, accumulators, RNG) become state reads by name; tangents, saved values and
// user inputs become method inputs (for a backward: saved values first, then tangents). Outputs are
// written-back inputs, user outputs, intermediate bases, gradients, then saved values;
// mutated states and state updates become state updates. Effect tokens are removed: the order of
// ops is the order of effects. The caller sets metadata, signature, input_binding, backward_method
// and rng_blocks. Equal graphs give equal bytes.
// InvalidArgument: `states` lacks a state, or has it with another type; the message names it.
// Internal: the runtime has no op for a node.
absl::StatusOr<serialization::Method> Emit(const Graph& graph, absl::Span<const serialization::State> states);

}  // namespace cotan::aot

#endif  // COTAN_AOT_EMIT_EMIT_H_
