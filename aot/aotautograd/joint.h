// SPDX-License-Identifier: Apache-2.0

// Runs LibTorch's autograd while tracing, which gives the backward half of a joint graph
// (AOTAutograd: create_joint).
#ifndef COTAN_AOT_AOTAUTOGRAD_JOINT_H_
#define COTAN_AOT_AOTAUTOGRAD_JOINT_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace torch::autograd {
struct Node;
}

namespace cotan::aot {

// InvalidArgument: `loss_output` is out of range, or the output is not a single number of a
// floating point dtype that requires grad.
absl::Status CheckLoss(absl::Span<const at::Tensor> outputs, int loss_output);

// Returns whether a backward pass can start from the tensor. A view taken under no_grad requires
// grad, but may have no gradient edge.
bool IsDifferentiable(const at::Tensor& tensor);

// Returns all autograd nodes that are reachable from the grad_fns of the roots. They are owned by
// the graph.
std::vector<torch::autograd::Node*> ReachableNodes(const std::vector<at::Tensor>& roots);

// Returns whether `node` is reachable from the grad_fn of a root.
bool IsReachable(const std::vector<at::Tensor>& roots, const torch::autograd::Node* node);

// Returns for each tensor the positions of those that it is computed from in autograd's graph, ascending. Tensors
// that are undefined or not differentiable have none and are none.
std::vector<std::vector<int>> ComputedFrom(const std::vector<at::Tensor>& tensors);

// Returns a contiguous real tensor with the sizes and dtype of `output`, the example of its
// tangent: all 1 for a loss, otherwise values in [-1, 1) that depend on `seed` and `index` only.
at::Tensor ExampleTangent(const at::Tensor& output, bool is_loss, uint64_t seed, int index);

// Returns the gradients of sum_i <roots[i], tangents[i]> with respect to `inputs`; undefined for an
// unused input. Runs on the calling thread and frees the autograd graph.
std::vector<at::Tensor> Gradients(const std::vector<at::Tensor>& roots, const std::vector<at::Tensor>& tangents,
                                  const std::vector<at::Tensor>& inputs);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_JOINT_H_
