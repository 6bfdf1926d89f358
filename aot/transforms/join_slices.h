// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_AOT_TRANSFORMS_JOIN_SLICES_H_
#define COTAN_AOT_TRANSFORMS_JOIN_SLICES_H_

#include "absl/status/statusor.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Replaces sums of aten.select_backward and aten.slice_backward whose slices cover a dimension exactly once by
// aten.cat: the gradient of a tensor that is read in parts, such as packed queries, keys and values, the halves of a
// rotary embedding, or the steps of a sequence. Each term of such a sum is as large as the tensor and zero outside of
// its slice, so that a sequence of n steps costs n times as much as its concatenation. One other term may be in the
// sum; with more, terms would be added in another order. Sizes along the dimension are constants. Results have the same
// bits, except that -0 stays -0. Returns true if the graph changed.
absl::StatusOr<bool> JoinSlices(Graph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TRANSFORMS_JOIN_SLICES_H_
