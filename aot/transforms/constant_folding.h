#ifndef COTAN_AOT_TRANSFORMS_CONSTANT_FOLDING_H_
#define COTAN_AOT_TRANSFORMS_CONSTANT_FOLDING_H_

#include "absl/status/statusor.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Computes arithmetic on tensors that are filled with one number (aten.full,
// zeros, ones and what follows from them), in the precision of their dtype:
// the result becomes an aten.full. Views of fills become fills. Constants that
// were captured while tracing are states, not numbers, and are left alone.
absl::StatusOr<bool> FoldConstants(Graph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TRANSFORMS_CONSTANT_FOLDING_H_
