// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_AOT_FUSION_FUSION_H_
#define COTAN_AOT_FUSION_FUSION_H_

#include "absl/status/statusor.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Merges cotan.expr nodes of a lowered graph so that as few tensors as possible
// pass through memory:
//   - producers into consumers over the same index space, also through reshapes: pointwise chains,
//     pointwise into reductions, functions of reduced values;
//   - cheap functions are recomputed rather than stored, if that loads no more bytes;
//   - programs over the same index space that load the same tensor;
//   - derivatives of expensive functions with the functions, see derivatives.h.
// Nodes keep their order where their dependencies allow it. Programs have at most
// kMaxFusedInstructions instructions. Returns true if the graph changed.
absl::StatusOr<bool> FuseExpressions(Graph& graph);

inline constexpr int kMaxFusedInstructions = 96;
inline constexpr int kMaxFusedInputs = 32;

}  // namespace cotan::aot

#endif  // COTAN_AOT_FUSION_FUSION_H_
