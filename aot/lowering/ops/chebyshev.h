// SPDX-License-Identifier: Apache-2.0

// Smooth functions as sums of Chebyshev polynomials. chebyshev_coefficients.py
// computes the coefficients of the op tables.
#ifndef COTAN_AOT_LOWERING_OPS_CHEBYSHEV_H_
#define COTAN_AOT_LOWERING_OPS_CHEBYSHEV_H_

#include "absl/types/span.h"
#include "aot/ir/builder.h"

namespace cotan::aot {

// Returns the sum of coefficients[k] * T_k(t) for t in [-1, 1]. Omits coefficients that are too
// small for t's dtype. `coefficients` is not empty.
Tensor ChebyshevSum(Builder& b, const Tensor& t, absl::Span<const double> coefficients);

}  // namespace cotan::aot

#endif  // COTAN_AOT_LOWERING_OPS_CHEBYSHEV_H_
