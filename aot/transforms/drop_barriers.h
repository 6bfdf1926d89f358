// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_AOT_TRANSFORMS_DROP_BARRIERS_H_
#define COTAN_AOT_TRANSFORMS_DROP_BARRIERS_H_

#include "absl/status/statusor.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Replaces prim.barrier by its operand. Runs after fusion, for which the barriers were. Returns true if the graph
// changed.
absl::StatusOr<bool> DropBarriers(Graph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TRANSFORMS_DROP_BARRIERS_H_
