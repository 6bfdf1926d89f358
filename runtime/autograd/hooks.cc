// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/hooks.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/autograd/variable.h"

namespace cotan::autograd {
namespace {

template <typename Entries>
bool RemoveFrom(Entries& entries, HookId id) {
  const auto found = std::find_if(entries.begin(), entries.end(), [id](const auto& entry) { return entry.id == id; });
  if (found == entries.end()) return false;
  entries.erase(found);
  return true;
}

// InvalidArgument: a hook replaced no gradient by one, or a gradient by one of other dtype, sizes or device.
absl::Status CheckReplacement(const Tensor& gradient, const Tensor& replaced) {
  if (!replaced.defined()) return absl::OkStatus();
  if (!gradient.defined()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a hook returned ", replaced.ToString(),
        " where there is no gradient: it can't replace an undefined gradient; return an undefined tensor"));
  }
  const bool is_of_type = replaced.dtype() == gradient.dtype() && replaced.sizes() == gradient.sizes() &&
                          &replaced.device() == &gradient.device();
  if (is_of_type) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a hook replaced the gradient ", gradient.ToString(), " by ",
                                                 replaced.ToString(),
                                                 ": a replacement has the dtype, the sizes and the device of the "
                                                 "gradient"));
}

}  // namespace

HookId NextHookId() {
  static std::atomic<HookId> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

bool Hooks::Remove(HookId id) {
  return RemoveFrom(gradient_, id) || RemoveFrom(retain_, id) || RemoveFrom(pre_, id) || RemoveFrom(post_, id);
}

bool Hooks::HasGradientHooksOf(int input) const {
  const auto is_of_input = [input](const auto& hook) { return hook.input == input; };
  return std::any_of(gradient_.begin(), gradient_.end(), is_of_input) ||
         std::any_of(retain_.begin(), retain_.end(), is_of_input);
}

absl::Status Hooks::RunGradientHooks(TensorOps& ops, absl::Span<Tensor> incoming) const {
  COTAN_RETURN_IF_ERROR(RunReplacingHooks(incoming));
  const auto hooks = retain_;  // a hook may change them
  for (const auto& hook : hooks) {
    const Tensor& gradient = incoming[static_cast<size_t>(hook.input)];
    if (gradient.defined()) COTAN_RETURN_IF_ERROR(hook.run(ops, Variable(gradient)));
  }
  return absl::OkStatus();
}

absl::Status Hooks::RunReplacingHooks(absl::Span<Tensor> incoming) const {
  const auto hooks = gradient_;  // a hook may change them
  for (const auto& hook : hooks) {
    Tensor& gradient = incoming[static_cast<size_t>(hook.input)];
    COTAN_ASSIGN_OR_RETURN(Tensor replaced, hook.run(gradient));
    COTAN_RETURN_IF_ERROR(CheckReplacement(gradient, replaced));
    if (replaced.defined()) gradient = std::move(replaced);
  }
  return absl::OkStatus();
}

absl::Status Hooks::RunRetainHooks(TensorOps& ops, absl::Span<const Variable> incoming) const {
  const auto hooks = retain_;  // a hook may change them
  for (const auto& hook : hooks) {
    const Variable& gradient = incoming[static_cast<size_t>(hook.input)];
    if (gradient.defined()) COTAN_RETURN_IF_ERROR(hook.run(ops, gradient));
  }
  return absl::OkStatus();
}

absl::Status Hooks::RunPreHooks(absl::Span<Tensor> incoming) const {
  const auto hooks = pre_;
  for (const auto& hook : hooks) {
    const Gradients before(incoming.begin(), incoming.end());
    COTAN_RETURN_IF_ERROR(hook.run(incoming));
    for (size_t i = 0; i < before.size(); ++i) COTAN_RETURN_IF_ERROR(CheckReplacement(before[i], incoming[i]));
  }
  return absl::OkStatus();
}

absl::Status Hooks::RunPostHooks(Gradients& results, absl::Span<const Tensor> incoming) const {
  const auto hooks = post_;
  for (const auto& hook : hooks) COTAN_RETURN_IF_ERROR(hook.run(results, incoming));
  return absl::OkStatus();
}

void Hooks::MoveRetainHooks(int input, Hooks& to, int to_input) {
  for (auto hook = retain_.begin(); hook != retain_.end();) {
    if (hook->input != input) {
      ++hook;
      continue;
    }
    hook->input = to_input;
    to.retain_.push_back(std::move(*hook));
    hook = retain_.erase(hook);
  }
}

}  // namespace cotan::autograd
