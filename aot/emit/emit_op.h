// SPDX-License-Identifier: Apache-2.0

// Converts nodes of the dialects prim and cotan to ops of the runtime.
#ifndef COTAN_AOT_EMIT_EMIT_OP_H_
#define COTAN_AOT_EMIT_EMIT_OP_H_

#include "absl/status/status.h"
#include "aot/ir/graph.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// Sets the kind of `op` and its attributes, but not its operands.
// Internal: the runtime has no op for the node, or does not define its cell or effect.
absl::Status EmitKernelOp(const Graph& graph, const Node& node, serialization::Op& op);

// Sets `step` to the view that `node` computes.
// Internal: the node is not a view.
absl::Status EmitViewStep(const Node& node, serialization::ViewStep& step);

}  // namespace cotan::aot

#endif  // COTAN_AOT_EMIT_EMIT_OP_H_
