// SPDX-License-Identifier: Apache-2.0

// Watches what a function asks of the gradients of its tensors.
#ifndef COTAN_AOT_CAPTURE_VARIABLE_WATCH_H_
#define COTAN_AOT_CAPTURE_VARIABLE_WATCH_H_

#include <ATen/core/TensorBase.h>

#include <functional>

namespace cotan::aot {

// Sees the calls of Tensor::register_hook() and retain_grad() of its thread while it lives. Instances nest: the
// innermost one watches.
class VariableWatch {
 public:
  using Hook = std::function<at::TensorBase(const at::TensorBase&)>;

  VariableWatch();
  virtual ~VariableWatch();
  VariableWatch(const VariableWatch&) = delete;
  VariableWatch& operator=(const VariableWatch&) = delete;

  // Returns the hook that the tensor gets instead of `hook`. May throw; the tensor then gets none.
  virtual Hook OnRegisterHook(const at::TensorBase& self, Hook hook) const = 0;
  // May throw; the tensor then retains no gradient.
  virtual void OnRetainGrad(const at::TensorBase& self) const = 0;

 private:
  const VariableWatch* const outer_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_VARIABLE_WATCH_H_
