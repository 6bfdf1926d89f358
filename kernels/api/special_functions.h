// Functions of expr.proto that the C library lacks.
#ifndef COTAN_KERNELS_API_SPECIAL_FUNCTIONS_H_
#define COTAN_KERNELS_API_SPECIAL_FUNCTIONS_H_

namespace cotan {

// Inverse of erf: infinite at +-1, NaN outside of [-1, 1].
double ErfInv(double x);

// Logarithmic derivative of the gamma function: infinite at 0, NaN at negative
// integers.
double Digamma(double x);

}  // namespace cotan

#endif  // COTAN_KERNELS_API_SPECIAL_FUNCTIONS_H_
