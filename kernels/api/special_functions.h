// SPDX-License-Identifier: Apache-2.0

// Scalar functions of expr.proto that the C library lacks.
#ifndef COTAN_KERNELS_API_SPECIAL_FUNCTIONS_H_
#define COTAN_KERNELS_API_SPECIAL_FUNCTIONS_H_

namespace cotan {

// Returns the inverse of erf: infinite at +-1, NaN outside [-1, 1].
double ErfInv(double x);

// Returns the logarithmic derivative of the gamma function: infinite at 0, NaN at negative integers.
double Digamma(double x);

}  // namespace cotan

#endif  // COTAN_KERNELS_API_SPECIAL_FUNCTIONS_H_
