// SPDX-License-Identifier: Apache-2.0

// Tensors without elements, which stand for the results of ops while two blocks are compared (op_sequence.h).
#ifndef COTAN_AOT_BLOCKS_TENSOR_SHELL_H_
#define COTAN_AOT_BLOCKS_TENSOR_SHELL_H_

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <torch/csrc/autograd/node.h>

#include <cstdint>
#include <exception>
#include <vector>

namespace cotan::aot {

// Ends a run that is compared.
struct OpsDiffer : std::exception {
  const char* what() const noexcept override { return "the block calls other ops"; }
};

// The properties of a tensor that a function can see without reading its elements.
struct TensorFacts {
  at::ScalarType dtype = at::ScalarType::Undefined;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;  // in the storage, in elements
  bool requires_grad = false;
  bool is_wrapped_number = false;

  friend bool operator==(const TensorFacts&, const TensorFacts&) = default;
};

TensorFacts FactsOf(const at::Tensor& tensor);

// Returns whether a tensor has no property that is not among its facts.
bool IsPlain(const at::Tensor& tensor);

// Returns a tensor with these facts and without elements; to ask for its storage throws. If it requires grad and is not
// a leaf, it has a node of its own, which throws OpsDiffer if it runs.
at::Tensor EmptyShell(const TensorFacts& facts, bool is_leaf);

// Returns whether hooks of any kind were added to a node.
bool HasHooks(torch::autograd::Node& node);

}  // namespace cotan::aot

#endif  // COTAN_AOT_BLOCKS_TENSOR_SHELL_H_
