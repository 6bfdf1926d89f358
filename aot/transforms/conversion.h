// SPDX-License-Identifier: Apache-2.0

// Recognizes conversions in lowered graphs. Private to //aot/transforms.
#ifndef COTAN_AOT_TRANSFORMS_CONVERSION_H_
#define COTAN_AOT_TRANSFORMS_CONVERSION_H_

#include "aot/ir/graph.h"

namespace cotan::aot {

// Returns true if the node converts a value to another dtype, and does nothing else: an expression reads an expanded
// value as it was before, so that it may also broadcast.
inline bool IsConversion(const Graph& graph, const Node& node) {
  if (node.expr == nullptr || node.arguments.size() != 1 || node.expr->instructions_size() != 2) return false;
  if (node.expr->instructions(1).fn() != serialization::FN_CAST || node.outputs.size() != 1) return false;
  return graph.value(TensorOperands(node)[0]).type.sizes == graph.value(node.outputs[0]).type.sizes;
}

}  // namespace cotan::aot

#endif  // COTAN_AOT_TRANSFORMS_CONVERSION_H_
