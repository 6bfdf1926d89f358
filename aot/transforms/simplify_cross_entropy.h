// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_AOT_TRANSFORMS_SIMPLIFY_CROSS_ENTROPY_H_
#define COTAN_AOT_TRANSFORMS_SIMPLIFY_CROSS_ENTROPY_H_

#include "absl/status/statusor.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Simplifies the gradient of log_softmax with a loss that selects one class per row, in a lowered graph of f32 or f64:
//   - exp(y - log(sum(exp(y)))) becomes exp(y) * (1 / sum(exp(y))), whose exponentials the forward has computed;
//   - the sum of select(iota == i, v, 0), a row that is zero but for the class, becomes v, or 0 for an index i outside.
// The first differs by roundings. A graph with saved values is not changed: its results have the same bits whatever is
// saved, but the terms above are in one graph only if they are not saved. Returns true if the graph changed.
absl::StatusOr<bool> SimplifyCrossEntropy(Graph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TRANSFORMS_SIMPLIFY_CROSS_ENTROPY_H_
