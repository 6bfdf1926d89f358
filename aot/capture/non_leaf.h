// Inputs of a traced function that are no leaves to it.
#ifndef COTAN_AOT_CAPTURE_NON_LEAF_H_
#define COTAN_AOT_CAPTURE_NON_LEAF_H_

#include <ATen/core/Tensor.h>

namespace cotan::aot {

// A tensor for the function to compute with and to write to, where the caller
// has the result of an op: it has `primal`'s content, but memory of its own, and
// its gradient is the one of `primal`, to which gradients can be taken whatever
// becomes of the result. `primal` is a functional tensor that requires grad.
at::Tensor NonLeaf(const at::Tensor& primal);

// Whether `example`, a real tensor, requires grad as its base does, and has no
// history of its own: a view that was made under no_grad.
bool PassesNoGradient(const at::Tensor& example);

// As NonLeaf() where the caller has a view that was made under no_grad: it requires
// grad, but no gradient goes through it, to `primal` or elsewhere.
at::Tensor NoGradView(const at::Tensor& primal);

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_NON_LEAF_H_
