// SPDX-License-Identifier: Apache-2.0

// Compiled functions of 2 x 2 matrices that several tests call.
#ifndef COTAN_TESTING_AUTOGRAD_MATRIX_FUNCTIONS_H_
#define COTAN_TESTING_AUTOGRAD_MATRIX_FUNCTIONS_H_

#include <ATen/core/Tensor.h>

#include "testing/autograd/world.h"

namespace cotan::testing {

// x.sum()
const CompiledFunction& Total();
// (x + y).sum()
const CompiledFunction& TotalOfTwo();
// 2 x
const CompiledFunction& Doubled();
// 2 x and 3 x
const CompiledFunction& TwiceAndThrice();
// A copy of x.
const CompiledFunction& Cloned();
// Doubles x, which requires grad and is not a leaf, in place. Returns nothing.
const CompiledFunction& DoublesInPlace();

// Returns a matrix of equal elements.
at::Tensor Full(double value);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_AUTOGRAD_MATRIX_FUNCTIONS_H_
