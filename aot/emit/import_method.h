// SPDX-License-Identifier: Apache-2.0

// Converts a method of an artifact to a graph: the inverse of Emit() (emit.h).
#ifndef COTAN_AOT_EMIT_IMPORT_METHOD_H_
#define COTAN_AOT_EMIT_IMPORT_METHOD_H_

#include "absl/status/statusor.h"
#include "aot/ir/graph.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// Returns the graph of a verified method without states and effects: its inputs as user inputs, its outputs as user
// outputs, its input updates. A view of several steps becomes several nodes. Emit() gives an equal method, but for the
// numbers of values. Unimplemented: the method has states, effects, or a view step that no prim op computes.
absl::StatusOr<Graph> ImportMethod(const serialization::Method& method);

}  // namespace cotan::aot

#endif  // COTAN_AOT_EMIT_IMPORT_METHOD_H_
