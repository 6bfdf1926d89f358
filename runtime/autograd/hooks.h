// SPDX-License-Identifier: Apache-2.0

// Hooks: user functions that a backward calls with gradients.
#ifndef COTAN_RUNTIME_AUTOGRAD_HOOKS_H_
#define COTAN_RUNTIME_AUTOGRAD_HOOKS_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/tensor/tensor.h"

namespace cotan {

class TensorOps;
class Variable;

namespace autograd {

// Gradients by position. An undefined tensor means that there is no gradient, which differs from zeros: grad() of a
// leaf stays unchanged.
using Gradients = std::vector<Tensor>;

// Makes the tensor undefined.
inline void Clear(Tensor& gradient) {
  const Tensor none;
  gradient = none;
}

// Called with the gradient, which is undefined if the node gets none for this input; returns its replacement, of the
// same dtype, sizes and device, or an undefined tensor to keep the gradient.
using GradientHook = std::function<absl::StatusOr<Tensor>(const Tensor& gradient)>;
// Called with a node's incoming gradients, which it may replace by tensors of the same type or make undefined.
using PreHook = std::function<absl::Status(absl::Span<Tensor> incoming)>;
// Called with a node's results, which it may replace, and its incoming gradients.
using PostHook = std::function<absl::Status(Gradients& results, absl::Span<const Tensor> incoming)>;
// Called with a defined gradient after all hooks that may replace it.
using RetainHook = std::function<absl::Status(TensorOps& ops, const Variable& gradient)>;

// The id of a hook, for removing it. Unique in the process, never 0.
using HookId = uint64_t;
HookId NextHookId();

// The hooks of a node. The engine runs, in this order: gradient hooks; retain hooks of the inputs with a defined
// gradient; pre-hooks; the node; post-hooks. Hooks of one kind run in the order in which they were added. A
// hook may add and remove hooks of its own node: those of the kind that is running change at the next backward.
class Hooks {
 public:
  HookId AddGradientHook(int input, GradientHook hook) { return Add(gradient_, input, std::move(hook)); }
  HookId AddRetainHook(int input, RetainHook hook) { return Add(retain_, input, std::move(hook)); }
  HookId AddPreHook(PreHook hook) { return Add(pre_, 0, std::move(hook)); }
  HookId AddPostHook(PostHook hook) { return Add(post_, 0, std::move(hook)); }
  // Removes the hook and returns whether it existed.
  bool Remove(HookId id);

  // Run the hooks of a kind; the first error is returned and the hooks after it do not run. InvalidArgument: a gradient
  // hook or pre-hook returned a gradient of another type than it got, or one where there was none.
  absl::Status RunGradientHooks(TensorOps& ops, absl::Span<Tensor> incoming) const;
  // Run the two halves of RunGradientHooks(): the hooks that may replace a gradient, then the retain hooks.
  absl::Status RunReplacingHooks(absl::Span<Tensor> incoming) const;
  absl::Status RunRetainHooks(TensorOps& ops, absl::Span<const Variable> incoming) const;
  absl::Status RunPreHooks(absl::Span<Tensor> incoming) const;
  absl::Status RunPostHooks(Gradients& results, absl::Span<const Tensor> incoming) const;
  bool has_gradient_hooks() const { return !gradient_.empty() || !retain_.empty(); }
  // Returns whether a gradient hook or a retain hook gets the gradient of this input.
  bool HasGradientHooksOf(int input) const;
  bool has_pre_hooks() const { return !pre_.empty(); }
  bool has_post_hooks() const { return !post_.empty(); }

  // Moves the retain hooks of `input` to input `to_input` of `to`: called when a variable with RetainGrad() gets
  // another grad_fn.
  void MoveRetainHooks(int input, Hooks& to, int to_input);

 private:
  template <typename F>
  struct Entry {
    HookId id;
    int input;
    F run;
  };
  template <typename F>
  HookId Add(std::vector<Entry<F>>& hooks, int input, F hook) {
    hooks.push_back({NextHookId(), input, std::move(hook)});
    return hooks.back().id;
  }

  std::vector<Entry<GradientHook>> gradient_;
  std::vector<Entry<RetainHook>> retain_;
  std::vector<Entry<PreHook>> pre_;
  std::vector<Entry<PostHook>> post_;
};

}  // namespace autograd
}  // namespace cotan

#endif  // COTAN_RUNTIME_AUTOGRAD_HOOKS_H_
