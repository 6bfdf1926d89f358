// SPDX-License-Identifier: Apache-2.0

// SavedVariable: a value that a node keeps from forward to backward (torch/csrc/autograd/saved_variable.h).
#ifndef COTAN_RUNTIME_AUTOGRAD_SAVED_VARIABLE_H_
#define COTAN_RUNTIME_AUTOGRAD_SAVED_VARIABLE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/saved_tensor_hooks.h"
#include "runtime/autograd/variable.h"
#include "runtime/tensor/tensor.h"

namespace cotan::autograd {

struct VersionCounter;

// A saved value with the version that it had. Keeps the tensor's memory alive, but not the variable or its grad_fn, so
// that a node may save its own results.
class SavedVariable {
 public:
  // Creates an undefined value, as the constructor from an undefined variable does: Unpack() returns an undefined
  // tensor.
  SavedVariable() = default;
  explicit SavedVariable(const Variable& variable);

  // Replaces the value by what `hooks` pack, until it is unpacked. Later writes to the value are not found. `node`:
  // which saved it. FailedPrecondition: the value has hooks already, Release() was called, there is no value, or it has
  // been written since it was saved. Errors of PackedTensor::Pack(). The value is unchanged after an error.
  absl::Status RegisterHooks(const SavedTensorHooks& hooks, const Node& node);

  // Returns the value. FailedPrecondition: Release() was called (a second backward), or the value has been written
  // since it was saved; the message names `node`, the value, and both versions. Errors of PackedTensor::Unpack().
  absl::StatusOr<Tensor> Unpack(const Node& node) const;
  void Release();

 private:
  Tensor tensor_;
  std::shared_ptr<const PackedTensor> packed_;  // in place of the value; null: it has no hooks
  std::shared_ptr<VersionCounter> counter_;
  uint32_t version_ = 0;
  std::weak_ptr<Node> made_by_;  // expired for a leaf
  int output_number_ = 0;        // of that node
  bool released_ = false;
};

}  // namespace cotan::autograd

#endif  // COTAN_RUNTIME_AUTOGRAD_SAVED_VARIABLE_H_
