// SPDX-License-Identifier: Apache-2.0

// Tolerances of recorded results. What a model computes in f16 or bf16, under autocast or in its own tensors, is
// rounded to eight or eleven bits many times, whatever the dtype of a result.
#ifndef COTAN_AOT_REFERENCES_TOLERANCE_H_
#define COTAN_AOT_REFERENCES_TOLERANCE_H_

#include "aot/ir/graph.h"
#include "base/dtype.h"

namespace cotan::aot {

// Returns bf16 if a value of the graph has that dtype, else f16 if one has, else kUndefined.
DType HalfDType(const Graph& graph);

// Return the tolerance of a tensor of `dtype` that a graph with HalfDType() `half` computes, 0 if it does not have
// floating-point elements: relative to its largest element, for sums in another order than LibTorch's through a few
// dozen layers; and relative to the largest summand of sums that cancel, whose rounding error scales with it.
double RelativeTolerance(DType dtype, DType half);
double CancelledTolerance(DType dtype, DType half);

}  // namespace cotan::aot

#endif  // COTAN_AOT_REFERENCES_TOLERANCE_H_
