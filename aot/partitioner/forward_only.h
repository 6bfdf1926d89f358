// SPDX-License-Identifier: Apache-2.0

// The forward of a joint graph whose backward cannot be compiled.
#ifndef COTAN_AOT_PARTITIONER_FORWARD_ONLY_H_
#define COTAN_AOT_PARTITIONER_FORWARD_ONLY_H_

#include "absl/status/statusor.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Returns whether the graph computes gradients.
bool HasBackward(const Graph& graph);

// Returns the joint graph without tangents, gradients, and mutations and effects of the backward. Errors of
// EliminateDeadCode().
absl::StatusOr<Graph> ForwardOnly(const Graph& joint);

}  // namespace cotan::aot

#endif  // COTAN_AOT_PARTITIONER_FORWARD_ONLY_H_
