// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_AOT_TRANSFORMS_ALGEBRAIC_H_
#define COTAN_AOT_TRANSFORMS_ALGEBRAIC_H_

#include "absl/status/statusor.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Removes aten nodes whose result equals an operand bit for bit: copies and aliases, casts to the
// same dtype, views and expansions to the same sizes, a transpose of a transpose, x * 1, x / 1, x -
// 0, x ** 1. (x + 0 is not removed: it turns -0 into 0.) Returns true if the graph changed.
absl::StatusOr<bool> SimplifyAlgebra(Graph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TRANSFORMS_ALGEBRAIC_H_
