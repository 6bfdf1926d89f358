// SPDX-License-Identifier: Apache-2.0

// Stores the updates of parameters that blocks use once for all parameters of a type.
#ifndef COTAN_AOT_BLOCKS_OUTLINE_UPDATES_H_
#define COTAN_AOT_BLOCKS_OUTLINE_UPDATES_H_

#include "absl/status/status.h"
#include "aot/blocks/lower_calls.h"
#include "aot/ir/graph.h"
#include "aot/optimizer/optimizer.h"

namespace cotan::aot {

// Replaces updates in a lowered graph to which AppendOptimizer() has added `slots` by calls, if the gradient is the
// result of a call and another parameter has the same update: equal ops on tensors of equal types. The updates of other
// parameters stay, and are fused with the computation of their gradients as without blocks. Numbers that updates share
// (bias corrections) stay in the graph. Errors of Optimize() and Emit().
absl::Status OutlineUpdates(const NewStates& slots, BlockLowerer& blocks, Graph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_BLOCKS_OUTLINE_UPDATES_H_
