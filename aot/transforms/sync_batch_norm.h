// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_AOT_TRANSFORMS_SYNC_BATCH_NORM_H_
#define COTAN_AOT_TRANSFORMS_SYNC_BATCH_NORM_H_

#include "aot/ir/graph.h"

namespace cotan::aot {

// Lets the batch norms of a traced graph that are in train mode, and their gradients, take the statistics of the
// batches of all ranks: "aten.X" becomes "cotan.sync_X", which has a row of its own in the op table.
void SynchronizeBatchNorm(Graph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TRANSFORMS_SYNC_BATCH_NORM_H_
