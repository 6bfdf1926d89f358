// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_AOT_TRANSFORMS_POOL_INDEX_DTYPE_H_
#define COTAN_AOT_TRANSFORMS_POOL_INDEX_DTYPE_H_

#include "absl/status/statusor.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Makes the indices of each prim.max_pool i32, half of ATen's i64, where only prim.max_pool_backward reads them and the
// sizes of the plane are constants with a product below 2^31. Gradients have the same bits. Returns true if the graph
// changed.
absl::StatusOr<bool> NarrowPoolIndexDTypes(Graph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TRANSFORMS_POOL_INDEX_DTYPE_H_
