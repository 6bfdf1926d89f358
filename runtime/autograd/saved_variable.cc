// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/saved_variable.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
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

absl::StatusOr<Tensor> SavedVariable::Unpack(const Node& node) const {
  if (released_) return node.FreedError();
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
  counter_ = nullptr;
}

}  // namespace cotan::autograd
