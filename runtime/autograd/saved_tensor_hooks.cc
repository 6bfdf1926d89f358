// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/saved_tensor_hooks.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace cotan::autograd {
namespace {

thread_local const SavedTensorHooksScope* innermost = nullptr;

bool HasFunctions(const SavedTensorHooks& hooks) { return hooks.pack != nullptr || hooks.unpack != nullptr; }

// Returns hooks that fail with `status`.
SavedTensorHooks Refusing(const absl::Status& status) {
  return {.pack = [status](const Tensor&) -> absl::StatusOr<PackedData> { return status; },
          .unpack = [status](const PackedData&) -> absl::StatusOr<Tensor> { return status; }};
}

}  // namespace

SavedTensorHooksScope::SavedTensorHooksScope(SavedTensorHooks hooks)
    : SavedTensorHooksScope(std::move(hooks), std::nullopt) {}

SavedTensorHooksScope::SavedTensorHooksScope(SavedTensorHooks hooks, std::optional<std::string> message)
    : outer_(innermost),
      message_(std::move(message)),
      disabled_by_(message_.has_value() ? this : (outer_ == nullptr ? nullptr : outer_->disabled_by_)),
      status_((message_.has_value() ? Current() != nullptr : HasFunctions(hooks) && disabled_by_ != nullptr)
                  ? absl::FailedPreconditionError(*disabled_by_->message_)
                  : absl::OkStatus()),
      hooks_(status_.ok() ? std::move(hooks) : Refusing(status_)) {
  innermost = this;
}

SavedTensorHooksScope SavedTensorHooksScope::Disable(std::string message) {
  return SavedTensorHooksScope(SavedTensorHooks(), std::move(message));
}

SavedTensorHooksScope::~SavedTensorHooksScope() { innermost = outer_; }

const SavedTensorHooks* SavedTensorHooksScope::Current() {
  return innermost != nullptr && HasFunctions(innermost->hooks_) ? &innermost->hooks_ : nullptr;
}

const SavedTensorHooksScope* SavedTensorHooksScope::Innermost() { return innermost; }

void SavedTensorHooksScope::SetInnermost(const SavedTensorHooksScope* scope) { innermost = scope; }

absl::StatusOr<PackedTensor> PackedTensor::Pack(const SavedTensorHooks& hooks, const Tensor& value) {
  if (hooks.pack == nullptr || hooks.unpack == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("SavedTensorHooks has no function '",
                                                   hooks.pack == nullptr ? "pack" : "unpack",
                                                   "': set both, or none to save values as they are"));
  }
  PackedTensor packed;
  COTAN_ASSIGN_OR_RETURN(packed.data_, hooks.pack(value));
  packed.unpack_ = hooks.unpack;
  packed.dtype_ = value.dtype();
  packed.sizes_.assign(value.sizes().begin(), value.sizes().end());
  packed.device_ = &value.device();
  return packed;
}

absl::StatusOr<Tensor> PackedTensor::Unpack() const {
  COTAN_ASSIGN_OR_RETURN(Tensor value, unpack_(data_));
  if (value.defined() && value.dtype() == dtype_ && value.sizes() == absl::MakeConstSpan(sizes_) &&
      &value.device() == device_) {
    return value;
  }
  return absl::InvalidArgumentError(absl::StrCat("an unpack hook returned ", value.ToString(), " for a saved value ",
                                                 DTypeName(dtype_), "[", absl::StrJoin(sizes_, ","),
                                                 "]: return the dtype, sizes and device that were packed"));
}

}  // namespace cotan::autograd
