#ifndef COTAN_AOT_TRANSFORMS_ALGEBRAIC_H_
#define COTAN_AOT_TRANSFORMS_ALGEBRAIC_H_

#include "absl/status/statusor.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Removes aten nodes that change nothing, bit for bit: copies and aliases,
// casts to the same dtype, views and expansions to the same sizes, a transpose
// of a transpose, x * 1, x / 1, x - 0, x ** 1. (x + 0 is not among them: it
// turns -0 into 0.)
absl::StatusOr<bool> SimplifyAlgebra(Graph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TRANSFORMS_ALGEBRAIC_H_
