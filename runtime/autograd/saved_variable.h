// Values that nodes keep from forward to backward.
#ifndef COTAN_RUNTIME_AUTOGRAD_SAVED_VARIABLE_H_
#define COTAN_RUNTIME_AUTOGRAD_SAVED_VARIABLE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/variable.h"
#include "runtime/tensor/tensor.h"

namespace cotan::autograd {

struct VersionCounter;

// A value that a node needs for its backward, with the version it had. Keeps its
// memory alive, but not the variable nor the graph behind it, so that a node may
// save what it returns.
class SavedVariable {
 public:
  // Undefined, as is what is made from an undefined variable: nothing to check.
  SavedVariable() = default;
  explicit SavedVariable(const Variable& variable);

  // FailedPrecondition: Release() was called (a second backward), or it has been
  // written since; the message names `node`, the value, and both versions.
  absl::StatusOr<Tensor> Unpack(const Node& node) const;
  void Release();

 private:
  Tensor tensor_;
  std::shared_ptr<VersionCounter> counter_;
  uint32_t version_ = 0;
  std::weak_ptr<Node> made_by_;  // expired for a leaf
  int output_number_ = 0;        // of that node
  bool released_ = false;
};

}  // namespace cotan::autograd

#endif  // COTAN_RUNTIME_AUTOGRAD_SAVED_VARIABLE_H_
