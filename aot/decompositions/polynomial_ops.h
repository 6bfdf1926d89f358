// SPDX-License-Identifier: Apache-2.0

// Rewrites of the orthogonal polynomials of torch.special; see rewrites.h.
#ifndef COTAN_AOT_DECOMPOSITIONS_POLYNOMIAL_OPS_H_
#define COTAN_AOT_DECOMPOSITIONS_POLYNOMIAL_OPS_H_

namespace torch {
class Library;
}

namespace cotan::aot {

// Adds the rewrites of polynomials whose degree is a number to a library for kRewriteKey: their recurrences
// (Abramowitz and Stegun, table 22.7), one step after another. A degree above 64 is reported as unsupported.
void AddPolynomialRewrites(torch::Library& library);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DECOMPOSITIONS_POLYNOMIAL_OPS_H_
