// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_AOT_TRANSFORMS_POOL_INDEX_DTYPE_H_
#define COTAN_AOT_TRANSFORMS_POOL_INDEX_DTYPE_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Returns whether i32 holds each position in a plane of these sizes: they are constants, and their product is below
// 2^31.
bool FitsIntoInt32(absl::Span<const SymInt> plane);

// Makes the indices of each prim.max_pool i32, half of ATen's i64, if FitsIntoInt32() and the graph does not return
// them. Nodes other than prim.max_pool_backward read a cast to i64, which fusion merges into them. Gradients have the
// same bits. Returns true if the graph changed.
absl::StatusOr<bool> NarrowPoolIndexDTypes(Graph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TRANSFORMS_POOL_INDEX_DTYPE_H_
