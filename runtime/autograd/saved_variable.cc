// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/saved_variable.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "runtime/autograd/variable_state.h"

namespace cotan::autograd {

SavedVariable::SavedVariable(const Variable& variable) {
  if (!variable.defined()) return;
  const VariableState& state = *variable.state();
  tensor_ = state.tensor;
  counter_ = state.version;
  version_ = counter_->value;
  made_by_ = state.grad_fn;
  output_number_ = state.output_number;
}

absl::Status SavedVariable::RegisterHooks(const SavedTensorHooks& hooks, const Node& node) {
  const auto refuse = [&node](absl::string_view why) {
    return absl::FailedPreconditionError(absl::StrCat("hooks of a saved value of ", node.name(), ": ", why));
  };
  if (released_) return refuse("the value has been freed by a backward: register them before it, or retain the graph");
  if (packed_ != nullptr) return refuse("hooks have already been set: a value has one pair");
  if (!tensor_.defined()) return refuse("the value is none: nothing was saved in its place");
  COTAN_ASSIGN_OR_RETURN(const Tensor value, Unpack(node));
  COTAN_ASSIGN_OR_RETURN(PackedTensor packed, PackedTensor::Pack(hooks, value));
  packed_ = std::make_shared<const PackedTensor>(std::move(packed));
  Clear(tensor_);
  counter_ = nullptr;
  return absl::OkStatus();
}

absl::StatusOr<Tensor> SavedVariable::Unpack(const Node& node) const {
  if (released_) return node.FreedError();
  if (packed_ != nullptr) return packed_->Unpack();
  if (counter_ == nullptr || counter_->value == version_) return tensor_;
  const std::shared_ptr<Node> made_by = made_by_.lock();
  const std::string origin =
      made_by == nullptr ? "" : absl::StrCat(", output ", output_number_, " of ", made_by->name(), ",");
  return absl::FailedPreconditionError(
      absl::StrCat("one of the variables needed for gradient computation by ", node.name(),
                   " has been modified by an inplace operation: ", tensor_.ToString(), origin, " is at version ",
                   counter_->value, "; expected version ", version_));
}

void SavedVariable::Release() {
  released_ = true;
  Clear(tensor_);
  packed_ = nullptr;
  counter_ = nullptr;
}

}  // namespace cotan::autograd
