// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_AOT_FUSION_DERIVATIVES_H_
#define COTAN_AOT_FUSION_DERIVATIVES_H_

#include "absl/container/flat_hash_set.h"
#include "aot/fusion/fusion_graph.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Separates derivatives of expensive functions (GELU, SiLU, ...), so that they are computed in the
// forward next to the function. In y = f(x) and g * f'(x), where a library op computes x, the
// programs of y and f'(x) share a function such as erf; if nothing else reads x, f'(x) is stored
// instead of x until the backward. Call it before programs are merged. Returns the values f'(x).
absl::flat_hash_set<ValueId> FindDerivativesToComputeInForward(FusionGraph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_FUSION_DERIVATIVES_H_
