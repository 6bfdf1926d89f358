// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_AOT_TRANSFORMS_PLACE_HOST_COPIES_H_
#define COTAN_AOT_TRANSFORMS_PLACE_HOST_COPIES_H_

#include "absl/status/statusor.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Moves each prim.to_host right behind the node that computes its operand, and each prim.from_host, with the views of
// its result, right before the first node that reads it, so that the value is on the device for as few nodes as
// possible. Runs after fusion, which orders nodes by other rules. Returns true if the graph changed.
absl::StatusOr<bool> PlaceHostCopies(Graph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TRANSFORMS_PLACE_HOST_COPIES_H_
