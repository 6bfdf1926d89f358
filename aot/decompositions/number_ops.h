// SPDX-License-Identifier: Apache-2.0

// Ops with symbolic numbers (aot/capture/number.h) among their arguments, called as ops of tensors.
//
//   mul.Scalar(x, s), pow.Tensor_Scalar(x, s), ...  -> the overload that takes a tensor in the number's place
//   add.Tensor(x, y, alpha=s), rsub, sub            -> x + s * y
//   full, full_like, new_full, scalar_tensor        -> fill_.Tensor
//   addmm, addmv, baddbmm, addcmul, addcdiv         -> products and sums
//   leaky_relu, threshold                           -> where
//
// Every other use of a number that the program could only have as a constant (a size, a setting of an op) is reported
// as unsupported.
#ifndef COTAN_AOT_DECOMPOSITIONS_NUMBER_OPS_H_
#define COTAN_AOT_DECOMPOSITIONS_NUMBER_OPS_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "aot/capture/recorder.h"

namespace cotan::aot {

// Calls an op whose arguments, on top of the stack, have symbolic numbers among them: pops them and pushes the results.
// Returns false, and changes nothing, if there are none. A use without a form as tensors is reported to `recorder`, and
// the op is called with the numbers of the example. Errors of LibTorch are thrown.
bool CallWithNumbers(const c10::OperatorHandle& op, torch::jit::Stack& stack, Recorder& recorder);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DECOMPOSITIONS_NUMBER_OPS_H_
