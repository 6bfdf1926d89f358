// Functions of the user that see gradients on their way.
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

namespace autograd {

// Gradients by position. An undefined tensor is no gradient, which is not the
// same as one of zeros: a leaf that gets none keeps its grad as it was.
using Gradients = std::vector<Tensor>;

// Lets go of it: no gradient.
inline void Clear(Tensor& gradient) {
  const Tensor none;
  gradient = none;
}

// Called with a defined gradient on its way; returns the one that goes on in
// its place. An undefined result leaves it as it is.
using GradientHook = std::function<absl::StatusOr<Tensor>(const Tensor& gradient)>;
// Called with a node's incoming gradients, which it may replace.
using PreHook = std::function<absl::Status(absl::Span<Tensor> incoming)>;
// Called with a node's results, which it may replace, and what it got.
using PostHook = std::function<absl::Status(Gradients& results, absl::Span<const Tensor> incoming)>;
// Called with a defined gradient after all hooks that may replace it.
using RetainHook = std::function<absl::Status(TensorOps& ops, const Tensor& gradient)>;

// Names a hook, to remove it. Unique in the process, never 0.
using HookId = uint64_t;
HookId NextHookId();

// The hooks of a node. A node calls, in this order: for each input with a
// gradient its gradient hooks, then its retain hooks; pre-hooks; the node
// itself; post-hooks. Hooks of one kind run in the order in which they were
// added. A hook must not add or remove hooks of the node it runs for.
class Hooks {
 public:
  HookId AddGradientHook(int input, GradientHook hook) { return Add(gradient_, input, std::move(hook)); }
  HookId AddRetainHook(int input, RetainHook hook) { return Add(retain_, input, std::move(hook)); }
  HookId AddPreHook(PreHook hook) { return Add(pre_, 0, std::move(hook)); }
  HookId AddPostHook(PostHook hook) { return Add(post_, 0, std::move(hook)); }
  // Whether there was such a hook.
  bool Remove(HookId id);

  // The first that fails stops them.
  absl::Status RunGradientHooks(TensorOps& ops, absl::Span<Tensor> incoming) const;
  absl::Status RunPreHooks(absl::Span<Tensor> incoming) const;
  absl::Status RunPostHooks(Gradients& results, absl::Span<const Tensor> incoming) const;
  bool has_post_hooks() const { return !post_.empty(); }

  // The retain hooks of `input` become those of `to_input` of `to`: a variable
  // has got another history and still wants its gradient.
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
