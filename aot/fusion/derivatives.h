#ifndef COTAN_AOT_FUSION_DERIVATIVES_H_
#define COTAN_AOT_FUSION_DERIVATIVES_H_

#include "absl/container/flat_hash_set.h"
#include "aot/fusion/fusion_graph.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Derivatives of dear functions (GELU, SiLU, ...) that are better computed
// where the function is. In f(x) = y and g * f'(x) with an x that a library op
// made, the programs of y and f'(x) share a function such as erf; and if nobody
// else reads x, then f'(x) can be stored in its place until the backward.
// To be called before programs are merged. Returns the values that stand for
// f'(x).
absl::flat_hash_set<ValueId> FindDerivativesToComputeInForward(FusionGraph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_FUSION_DERIVATIVES_H_
