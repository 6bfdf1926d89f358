// SPDX-License-Identifier: Apache-2.0

// Indices of max pooling in one byte.
#ifndef COTAN_AOT_PARTITIONER_POOL_OFFSETS_H_
#define COTAN_AOT_PARTITIONER_POOL_OFFSETS_H_

#include "absl/status/status.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Lets each prim.max_pool_backward of a lowered joint graph read indices that are computed from the position of the
// maximum in its window, u8, which is computed from the indices of prim.max_pool. A cut then saves one byte per element
// instead of eight. Windows of more than 256 elements are left as they are. Inductor's decomposition of
// max_pool2d_with_indices does the same.
absl::Status NarrowPoolIndices(Graph& joint);

}  // namespace cotan::aot

#endif  // COTAN_AOT_PARTITIONER_POOL_OFFSETS_H_
