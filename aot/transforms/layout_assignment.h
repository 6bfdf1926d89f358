// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_AOT_TRANSFORMS_LAYOUT_ASSIGNMENT_H_
#define COTAN_AOT_TRANSFORMS_LAYOUT_ASSIGNMENT_H_

#include "absl/status/statusor.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// How the device of a program stores tensors.
struct LayoutPreferences {
  // Kernels of convolutions in f16 and bf16, and their gradients, are channels-last, as cuDNN reads and writes them.
  // Kernels of CPUs reorder them in any case, and a conversion from or to a row-major parameter is faster without.
  bool half_kernels_channels_last = false;
};

// Chooses the order of dimensions in memory (TensorType::dim_order) of the values of a lowered graph. Results of
// convolutions, and of pointwise ops, pooling and resizing (gather and scatter_add by one index) on them, are
// channels-last. Results of attention are [batch, length, heads, width] in memory, so that the following projection
// reads rows. A value that is only read permuted is stored permuted. Weights, their gradients, states and results for
// the caller stay row-major, except for what `preferences` names. Returns true if the graph changed.
absl::StatusOr<bool> AssignLayouts(Graph& graph, const LayoutPreferences& preferences);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TRANSFORMS_LAYOUT_ASSIGNMENT_H_
