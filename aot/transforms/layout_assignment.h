#ifndef COTAN_AOT_TRANSFORMS_LAYOUT_ASSIGNMENT_H_
#define COTAN_AOT_TRANSFORMS_LAYOUT_ASSIGNMENT_H_

#include "absl/status/statusor.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Chooses the order of dimensions in memory (TensorType::dim_order) of what a
// lowered graph computes: results of convolutions have the channels last, and
// so has what is computed from them element by element or by pooling; results
// of attention are [batch, length, heads, width], so that the projection after
// it reads rows; what is only read permuted is written that way. Weights,
// gradients of weights, states and everything that the caller sees stay
// row-major.
absl::StatusOr<bool> AssignLayouts(Graph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TRANSFORMS_LAYOUT_ASSIGNMENT_H_
