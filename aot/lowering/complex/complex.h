// Complex numbers as pairs of real ones: the runtime computes with real numbers
// alone.
#ifndef COTAN_AOT_LOWERING_COMPLEX_COMPLEX_H_
#define COTAN_AOT_LOWERING_COMPLEX_COMPLEX_H_

#include "absl/status/status.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Rewrites a traced graph so that all that is complex is real with a last
// dimension of two, real and imaginary part. Complex inputs and outputs stay:
// aten.view_as_real and aten.view_as_complex lead from and to them.
// Unimplemented: the ops on complex tensors that have no such form; all of them
// are named.
absl::Status SplitComplex(Graph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_LOWERING_COMPLEX_COMPLEX_H_
