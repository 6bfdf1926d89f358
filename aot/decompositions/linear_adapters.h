// SPDX-License-Identifier: Apache-2.0

// Low-rank adapters (Hu et al., "LoRA", 2021) of linear layers while a function is traced:
// linear(x, weight) + scaling * linear(linear(x, down), up).
#ifndef COTAN_AOT_DECOMPOSITIONS_LINEAR_ADAPTERS_H_
#define COTAN_AOT_DECOMPOSITIONS_LINEAR_ADAPTERS_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <string>
#include <vector>

#include "absl/types/span.h"

namespace cotan::aot {

// The adapter of one weight.
struct LinearAdapter {
  std::string layer;   // for messages
  at::Tensor weight;   // [out, in]; the object that the traced function passes to aten::linear, or transposes
  at::Tensor down;     // [rank, in]
  at::Tensor up;       // [out, rank]
  at::Tensor scaling;  // []
  std::vector<at::Tensor> transposed = {};  // views of the weight in the trace
  bool is_used = false;
};

// Within its scope, products of this thread with one of the weights also add the weight's adapter, in kRewriteKey:
// aten::linear, and aten::matmul, mm and addmm with a transposed weight, as torch::nn::Linear calls them. The adapters
// outlive it. Scopes nest; the innermost one holds.
class LinearAdapterScope {
 public:
  explicit LinearAdapterScope(absl::Span<LinearAdapter> adapters);
  ~LinearAdapterScope();
  LinearAdapterScope(const LinearAdapterScope&) = delete;
  LinearAdapterScope& operator=(const LinearAdapterScope&) = delete;

 private:
  absl::Span<LinearAdapter> outer_;
};

// Returns whether a tensor is a weight with an adapter of the scope.
bool HasAdapter(const at::Tensor& tensor);

// A call that has to do with an adapted weight.
struct AdaptedCall {
  LinearAdapter* adapter = nullptr;  // null: it has not
  at::Tensor x;                      // the other factor; undefined: the call transposes the weight
};

// Returns what a call, whose arguments are on the stack, has to do with the adapters of the scope.
AdaptedCall FindAdaptedCall(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

// Returns the result of the call with the adapter's part, if it is a product; remembers a transposed weight.
at::Tensor ApplyAdapter(const AdaptedCall& call, const at::Tensor& result);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DECOMPOSITIONS_LINEAR_ADAPTERS_H_
