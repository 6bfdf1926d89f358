// SPDX-License-Identifier: Apache-2.0

// VariableState: the state shared by all handles of a variable. For this package only.
#ifndef COTAN_RUNTIME_AUTOGRAD_VARIABLE_STATE_H_
#define COTAN_RUNTIME_AUTOGRAD_VARIABLE_STATE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "runtime/autograd/hooks.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/variable.h"
#include "runtime/tensor/tensor.h"

namespace cotan::autograd {

// The version counter shared by a variable, its views and its detached aliases.
struct VersionCounter {
  uint32_t value = 0;
};

struct VariableState {
  struct PostAccumulateHook {
    HookId id;
    std::function<absl::Status(Variable& leaf)> run;
  };

  VariableState(Tensor tensor_in, std::shared_ptr<VersionCounter> version_in)
      : tensor(std::move(tensor_in)), version(std::move(version_in)), grad_dtype(tensor.dtype()) {}
  ~VariableState() { Release(std::move(grad_fn)); }
  VariableState(const VariableState&) = delete;
  VariableState& operator=(const VariableState&) = delete;

  bool is_view() const { return base.defined(); }

  Tensor tensor;
  std::shared_ptr<VersionCounter> version;

  bool requires_grad = false;     // set by RequiresGrad(); not set for computed values and views
  std::shared_ptr<Node> grad_fn;  // null: a leaf; of a view, stale unless history_version is current
  int output_number = 0;          // among the inputs of grad_fn
  Variable grad;
  HookId retain_hook = 0;  // of RetainGrad(); 0: not called

  // Guards `accumulator`, and `grad` against backwards: several threads may use one leaf.
  std::mutex leaf_mutex;
  // Fields of a leaf. Its AccumulateGrad node owns the leaf; the leaf has a weak reference.
  std::weak_ptr<Node> accumulator;
  std::shared_ptr<Hooks> leaf_hooks;  // null: none
  std::vector<PostAccumulateHook> post_accumulate_hooks;
  DType grad_dtype;  // kUndefined: any

  // Fields of a view.
  Variable base;  // not itself a view
  ViewCreation creation = ViewCreation::kDefault;
  uint32_t history_version = 0;  // the version for which grad_fn is valid
};

}  // namespace cotan::autograd

#endif  // COTAN_RUNTIME_AUTOGRAD_VARIABLE_STATE_H_
