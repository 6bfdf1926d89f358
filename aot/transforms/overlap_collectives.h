// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_AOT_TRANSFORMS_OVERLAP_COLLECTIVES_H_
#define COTAN_AOT_TRANSFORMS_OVERLAP_COLLECTIVES_H_

#include "absl/status/statusor.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Lets a lowered graph compute while its collectives communicate: each starts as soon as its operands are computed, and
// is waited for where a result is read. Starts and waits keep the order of the collectives. Collectives that do not
// depend on each other are waited for together, before the first reader of one of them: states are updated in place
// only after the last collective that can fail. A collective stays whole if nothing is computed meanwhile, or if it is
// a sum but not a mean: a statistic, which is needed at once. Later passes must not move nodes.
absl::StatusOr<bool> OverlapCollectives(Graph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TRANSFORMS_OVERLAP_COLLECTIVES_H_
