// From a node of the dialects prim and cotan to the op of the runtime.
#ifndef COTAN_AOT_EMIT_EMIT_OP_H_
#define COTAN_AOT_EMIT_EMIT_OP_H_

#include "absl/status/status.h"
#include "aot/ir/graph.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// Fills the kind of `op`, operands excepted.
// Internal: a node that the runtime has no op for, or whose cell or effect it does not
// know.
absl::Status EmitKernelOp(const Graph& graph, const Node& node, serialization::Op& op);

// Internal: as above.
absl::Status EmitViewStep(const Node& node, serialization::ViewStep& step);

}  // namespace cotan::aot

#endif  // COTAN_AOT_EMIT_EMIT_OP_H_
