// SPDX-License-Identifier: Apache-2.0

// SavedTensorHooks: functions that pack what compiled forwards save and unpack it for the backward
// (torch.autograd.graph.saved_tensors_hooks).
#ifndef COTAN_RUNTIME_AUTOGRAD_SAVED_TENSOR_HOOKS_H_
#define COTAN_RUNTIME_AUTOGRAD_SAVED_TENSOR_HOOKS_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "runtime/tensor/tensor.h"

namespace cotan::autograd {

using PackedData = std::shared_ptr<const void>;

// `pack` is called once for each saved value, when it is saved; it must not write the tensor. `unpack` is called in
// each backward directly before the node that saved the value runs. It returns a tensor of the same dtype, sizes and
// device. Both are set, or none: then values are saved as they are.
struct SavedTensorHooks {
  std::function<absl::StatusOr<PackedData>(const Tensor& value)> pack;
  std::function<absl::StatusOr<Tensor>(const PackedData& packed)> unpack;
};

// Applies hooks to the calls of functions that this thread records, from construction to destruction. Scopes nest; only
// the innermost one applies.
class SavedTensorHooksScope {
 public:
  explicit SavedTensorHooksScope(SavedTensorHooks hooks);
  // Returns a scope in which values are saved as they are, and inner scopes with hooks are refused with `message`
  // (torch.autograd.graph.disable_saved_tensors_hooks). It is refused itself where hooks apply. Of nested ones the
  // innermost message counts.
  [[nodiscard]] static SavedTensorHooksScope Disable(std::string message);
  ~SavedTensorHooksScope();
  SavedTensorHooksScope(const SavedTensorHooksScope&) = delete;
  SavedTensorHooksScope& operator=(const SavedTensorHooksScope&) = delete;

  // Returns FailedPrecondition, with the message of Disable(), if the scope is refused: it has hooks that are disabled,
  // or disables hooks that apply. Calls in it that save something then fail with this error.
  const absl::Status& status() const { return status_; }

  // Returns the hooks of the innermost scope; null if there is none, or if it has no functions.
  static const SavedTensorHooks* Current();

  // Return and set the innermost scope of this thread, for threads that go on with a backward of another one.
  static const SavedTensorHooksScope* Innermost();
  static void SetInnermost(const SavedTensorHooksScope* scope);

 private:
  SavedTensorHooksScope(SavedTensorHooks hooks, std::optional<std::string> message);

  const SavedTensorHooksScope* const outer_;
  const std::optional<std::string> message_;        // of Disable()
  const SavedTensorHooksScope* const disabled_by_;  // this, or a scope around it; null: none
  const absl::Status status_;
  const SavedTensorHooks hooks_;  // all of which return status_, if that is an error
};

// A saved value as its hooks packed it.
class PackedTensor {
 public:
  // Calls hooks.pack(). Errors of the hook are returned as they are. InvalidArgument: one of the functions is not set.
  static absl::StatusOr<PackedTensor> Pack(const SavedTensorHooks& hooks, const Tensor& value);

  // Calls hooks.unpack(). Errors of the hook are returned as they are. InvalidArgument: the tensor differs from the
  // packed one in dtype, sizes or device.
  absl::StatusOr<Tensor> Unpack() const;

 private:
  PackedData data_;
  std::function<absl::StatusOr<Tensor>(const PackedData& packed)> unpack_;
  DType dtype_ = DType::kUndefined;
  DimVector sizes_;
  Device* device_ = nullptr;
};

}  // namespace cotan::autograd

#endif  // COTAN_RUNTIME_AUTOGRAD_SAVED_TENSOR_HOOKS_H_
