// SPDX-License-Identifier: Apache-2.0

// AddMultiGradHook(): a hook on the gradients of several variables (torch.autograd.graph.register_multi_grad_hook).
#ifndef COTAN_RUNTIME_AUTOGRAD_MULTI_GRAD_HOOK_H_
#define COTAN_RUNTIME_AUTOGRAD_MULTI_GRAD_HOOK_H_

#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/autograd/hooks.h"
#include "runtime/autograd/variable.h"

namespace cotan::autograd {

enum class MultiGradMode : uint8_t {
  kAll,  // once per backward, when the gradients of all variables that it reaches are there
  kAny,  // once per backward, with the first gradient
};

// Called with one gradient for each variable, undefined where the backward does not compute it (kAny: all but one).
using MultiGradHook = std::function<absl::Status(const Gradients& gradients)>;

// The hooks that AddMultiGradHook() added. The object may be dropped; the hook then stays.
class MultiGradHookHandle {
 public:
  // Removes the hook from all variables.
  void Remove();

 private:
  friend absl::StatusOr<MultiGradHookHandle> AddMultiGradHook(absl::Span<const Variable>, MultiGradMode, MultiGradHook);
  std::vector<std::pair<Variable, HookId>> hooks_;
};

// Adds the hook to the variables, whose order is that of the gradients. FailedPrecondition: as Variable::AddHook().
absl::StatusOr<MultiGradHookHandle> AddMultiGradHook(absl::Span<const Variable> variables, MultiGradMode mode,
                                                     MultiGradHook hook);

}  // namespace cotan::autograd

#endif  // COTAN_RUNTIME_AUTOGRAD_MULTI_GRAD_HOOK_H_
