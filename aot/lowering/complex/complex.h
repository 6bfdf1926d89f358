// SPDX-License-Identifier: Apache-2.0

// Represents complex numbers as pairs of real ones; the runtime computes with real numbers only.
#ifndef COTAN_AOT_LOWERING_COMPLEX_COMPLEX_H_
#define COTAN_AOT_LOWERING_COMPLEX_COMPLEX_H_

#include "absl/status/status.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Rewrites a traced graph so that complex values become real ones with a last dimension of size 2
// (real and imaginary part). Inputs and outputs stay complex and are converted with
// aten.view_as_real and aten.view_as_complex.
// Unimplemented: an op on complex tensors has no real form; the message names all such ops.
absl::Status SplitComplex(Graph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_LOWERING_COMPLEX_COMPLEX_H_
