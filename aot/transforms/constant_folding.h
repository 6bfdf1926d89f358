// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_AOT_TRANSFORMS_CONSTANT_FOLDING_H_
#define COTAN_AOT_TRANSFORMS_CONSTANT_FOLDING_H_

#include "absl/status/statusor.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Evaluates arithmetic on tensors filled with one number (aten.full, zeros, ones and results of
// folding) in the precision of their dtype; the result becomes an aten.full, and so does a view of
// one. Constants captured while tracing are states and are not folded. Returns true if the graph
// changed.
absl::StatusOr<bool> FoldConstants(Graph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TRANSFORMS_CONSTANT_FOLDING_H_
