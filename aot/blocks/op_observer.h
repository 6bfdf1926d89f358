// SPDX-License-Identifier: Apache-2.0

// Sees the calls of ops on top of the dispatcher, with their arguments as bytes.
#ifndef COTAN_AOT_BLOCKS_OP_OBSERVER_H_
#define COTAN_AOT_BLOCKS_OP_OBSERVER_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/csrc/autograd/node.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "aot/capture/traced_function.h"
#include "aot/capture/variable_watch.h"

namespace cotan::aot {

// Sees the ops that a function of tensors calls on this thread. Instances nest: the innermost one sees them.
class OpObserver : public VariableWatch {
 public:
  OpObserver(absl::Span<const ModuleState> states, absl::Span<const at::Tensor> inputs);
  ~OpObserver() override { current_ = outer_; }

  // Returns the innermost one of the thread; null: there is none.
  static OpObserver* Current() { return current_; }

  // Replaces the arguments on the stack by the results of the op. Ops that it calls itself are not observed.
  virtual void Call(const c10::OperatorHandle& op, torch::jit::Stack& stack) = 0;
  // The function does something that is not a call of an op.
  virtual void Refuse() const = 0;

  // Calls the function, and Call() for each op that it calls.
  std::vector<at::Tensor> Run(const TensorFunction& function, const std::vector<at::Tensor>& inputs);

  Hook OnRegisterHook(const at::TensorBase& /*self*/, Hook hook) const override {
    Refuse();
    return hook;
  }
  void OnRetainGrad(const at::TensorBase& /*self*/) const override { Refuse(); }

 protected:
  using NodePtr = c10::intrusive_ptr<torch::autograd::Node>;
  using WeakPtr = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  // A tensor with a number. A weak pointer keeps its address from being used again, and LibTorch from seeing another
  // owner: torch::zeros() and others return another tensor then.
  struct Numbered {
    WeakPtr tensor;
    NodePtr grad_fn;
  };

  // Returns the number of the tensor that a tensor without a number is a copy of, made without an op; -1: of none.
  virtual int NumberOfCopied(const at::Tensor& tensor) const { return -1; }

  // Returns the number of a tensor; -1: it has none.
  int NumberOf(const at::Tensor& tensor) const {
    const auto found = numbers_.find(tensor.unsafeGetTensorImpl());
    return found == numbers_.end() ? -1 : found->second;
  }
  // Gives a tensor the number of the one that it is a copy of, if there is one.
  void AddCopy(const at::Tensor& tensor) {
    const int number = NumberOfCopied(tensor);
    if (number < 0) return;
    copies_.emplace_back(tensor.getIntrusivePtr());
    numbers_.emplace(tensor.unsafeGetTensorImpl(), number);
  }
  // Gives a tensor the next number.
  int Add(const at::Tensor& tensor) {
    tensors_.push_back({WeakPtr(tensor.getIntrusivePtr()), tensor.grad_fn()});
    numbers_.emplace(tensor.unsafeGetTensorImpl(), static_cast<int>(tensors_.size()) - 1);
    return static_cast<int>(tensors_.size()) - 1;
  }
  // Takes the present node of a numbered tensor, which an op wrote, as its own.
  void UpdateNode(const at::Tensor& tensor) {
    const int number = NumberOf(tensor);
    if (number >= 0) tensors_[static_cast<size_t>(number)].grad_fn = tensor.grad_fn();
  }
  // Returns a tensor; undefined: it has ended.
  at::Tensor TensorOf(int number) const { return at::Tensor(tensors_[static_cast<size_t>(number)].tensor.lock()); }
  const std::vector<Numbered>& tensors() const { return tensors_; }
  size_t num_arguments() const { return num_arguments_; }

  // Returns a call as bytes: the op, the modes of the thread, and the arguments on the stack.
  std::string TextOf(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
  // Returns what the function returned, and the inputs and states at its end.
  std::string TextOf(const std::vector<at::Tensor>& returned);

 private:
  void AppendValue(const c10::IValue& value, std::string& text);
  void AppendTensor(const at::Tensor& tensor, std::string& text);
  // Appends the content of a tensor that is not computed by the function.
  void AppendContent(const at::Tensor& tensor, std::string& text) const;

  static thread_local OpObserver* current_;

  OpObserver* const outer_;
  std::vector<Numbered> tensors_;
  std::vector<WeakPtr> copies_;
  absl::flat_hash_map<const c10::TensorImpl*, int> numbers_;
  size_t num_arguments_ = 0;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_BLOCKS_OP_OBSERVER_H_
