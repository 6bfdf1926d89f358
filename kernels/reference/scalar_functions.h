// SPDX-License-Identifier: Apache-2.0

// The scalar functions of expr.proto on single elements.
#ifndef COTAN_KERNELS_REFERENCE_SCALAR_FUNCTIONS_H_
#define COTAN_KERNELS_REFERENCE_SCALAR_FUNCTIONS_H_

#include "base/dtype.h"
#include "kernels/reference/element.h"
#include "serialization/schema/expr.pb.h"

namespace cotan::reference {

// Applies `fn`, which is not a leaf, a cast or a reduction, to operands of `dtype` (operand 0 of FN_SELECT is
// bool) and rounds the result to its dtype. Operands beyond the function's arity are ignored.
Scalar Apply(serialization::ScalarFn fn, DType dtype, Scalar a, Scalar b, Scalar c);

Scalar Cast(DType from, DType to, Scalar value);

// Return the neutral element and the next partial result of a reduction over values of `dtype`. Sums and
// products of floats are accumulated in double and rounded once, at the end.
Scalar ReduceStart(serialization::ScalarFn fn, DType dtype);
Scalar ReduceStep(serialization::ScalarFn fn, DType dtype, Scalar total, Scalar value);

}  // namespace cotan::reference

#endif  // COTAN_KERNELS_REFERENCE_SCALAR_FUNCTIONS_H_
