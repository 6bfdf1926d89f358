// The scalar functions of expr.proto, one element at a time.
#ifndef COTAN_KERNELS_REFERENCE_SCALAR_FUNCTIONS_H_
#define COTAN_KERNELS_REFERENCE_SCALAR_FUNCTIONS_H_

#include "base/dtype.h"
#include "kernels/reference/element.h"
#include "serialization/schema/expr.pb.h"

namespace cotan::reference {

// Applies `fn`, which is no leaf, cast or reduction, to operands of `dtype`
// (operand 0 of FN_SELECT is bool). The result is rounded to the result's
// dtype. Operands that a function does not take are ignored.
Scalar Apply(serialization::ScalarFn fn, DType dtype, Scalar a, Scalar b, Scalar c);

Scalar Cast(DType from, DType to, Scalar value);

// Neutral element and step of a reduction over values of `dtype`. Sums and
// products of floats are carried in double and rounded once, at the end.
Scalar ReduceStart(serialization::ScalarFn fn, DType dtype);
Scalar ReduceStep(serialization::ScalarFn fn, DType dtype, Scalar total, Scalar value);

}  // namespace cotan::reference

#endif  // COTAN_KERNELS_REFERENCE_SCALAR_FUNCTIONS_H_
