#ifndef COTAN_AOT_FUSION_FUSION_H_
#define COTAN_AOT_FUSION_FUSION_H_

#include "absl/status/statusor.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Merges cotan.expr nodes of a lowered graph so that as few tensors as possible
// pass through memory:
//   - producers into consumers over the same index space, seeing through
//     reshapes: pointwise chains, pointwise into reductions, functions of
//     reduced values;
//   - cheap functions are computed again rather than stored, where that loads
//     no more;
//   - programs over the same index space that load the same tensor;
//   - derivatives of dear functions with the functions, see derivatives.h.
// Nodes are put in an order that respects their dependencies and keeps to the
// old one where it can. Programs stay below kMaxFusedInstructions.
absl::StatusOr<bool> FuseExpressions(Graph& graph);

inline constexpr int kMaxFusedInstructions = 96;
inline constexpr int kMaxFusedInputs = 32;

}  // namespace cotan::aot

#endif  // COTAN_AOT_FUSION_FUSION_H_
