// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/variable_watch.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/VariableHooksInterface.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace cotan::aot {
namespace {

using at::TensorBase;

thread_local const VariableWatch* current_watch = nullptr;

// LibTorch's implementation of tensors with gradients, but for the calls that a VariableWatch sees.
class WatchedVariables final : public at::impl::VariableHooksInterface {
 public:
  explicit WatchedVariables(at::impl::VariableHooksInterface& inner) : inner_(inner) {}

  unsigned _register_hook(const TensorBase& self, std::function<TensorBase(const TensorBase&)> hook) const override {
    if (current_watch != nullptr) hook = current_watch->OnRegisterHook(self, std::move(hook));
    return inner_._register_hook(self, std::move(hook));
  }
  void retain_grad(const TensorBase& self) const override {
    if (current_watch != nullptr) current_watch->OnRetainGrad(self);
    inner_.retain_grad(self);
  }

  TensorBase tensor_data(const TensorBase& self) const override { return inner_.tensor_data(self); }
  TensorBase variable_data(const TensorBase& self) const override { return inner_.variable_data(self); }
  const c10::intrusive_ptr<torch::autograd::Node>& grad_fn(const TensorBase& self) const override {
    return inner_.grad_fn(self);
  }
  void remove_hook(const TensorBase& self, unsigned position) const override { inner_.remove_hook(self, position); }
  bool is_view(const TensorBase& self) const override { return inner_.is_view(self); }
  const TensorBase& base(const TensorBase& self) const override { return inner_.base(self); }
  const std::string& name(const TensorBase& self) const override { return inner_.name(self); }
  bool is_leaf(const TensorBase& self) const override { return inner_.is_leaf(self); }
  int64_t output_nr(const TensorBase& self) const override { return inner_.output_nr(self); }
  void set_data(const TensorBase& self, const TensorBase& data) const override { inner_.set_data(self, data); }
  TensorBase data(const TensorBase& self) const override { return inner_.data(self); }
  int64_t _version(const TensorBase& self) const override { return inner_._version(self); }
  bool retains_grad(const TensorBase& self) const override { return inner_.retains_grad(self); }
  void _backward(const at::Tensor& self, at::TensorList inputs, const std::optional<at::Tensor>& gradient,
                 std::optional<bool> keep_graph, bool create_graph) const override {
    inner_._backward(self, inputs, gradient, keep_graph, create_graph);
  }
  void requires_grad_(const TensorBase& self, bool requires_grad) const override {
    inner_.requires_grad_(self, requires_grad);
  }
  void basic_autograd_not_implemented_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                                               torch::jit::Stack* stack) const override {
    inner_.basic_autograd_not_implemented_fallback(op, keys, stack);
  }
  std::optional<c10::ScalarType> grad_dtype(const TensorBase& self) const override { return inner_.grad_dtype(self); }
  void set_grad_dtype(const TensorBase& self, const std::optional<c10::ScalarType>& dtype) const override {
    inner_.set_grad_dtype(self, dtype);
  }

 private:
  at::impl::VariableHooksInterface& inner_;
};

// Installs WatchedVariables once; it stays, because other threads may use it.
void WatchVariables() {
  static const bool installed = [] {
    at::impl::SetVariableHooks(new WatchedVariables(*at::impl::GetVariableHooks()));
    return true;
  }();
  (void)installed;
}

}  // namespace

VariableWatch::VariableWatch() : outer_(current_watch) {
  WatchVariables();
  current_watch = this;
}

VariableWatch::~VariableWatch() { current_watch = outer_; }

}  // namespace cotan::aot
