// The backward half of a joint graph: LibTorch's autograd, run while tracing.
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

// InvalidArgument: there is no output `loss_output`, or it is no single number of
// a floating point dtype that requires grad.
absl::Status CheckLoss(absl::Span<const at::Tensor> outputs, int loss_output);

// Whether a backward pass can start from the tensor. A view that was taken
// with gradients disabled requires grad, but has no history.
bool IsDifferentiable(const at::Tensor& tensor);

// The nodes that gradients go to from the roots.
std::vector<torch::autograd::Node*> NodesBehind(const std::vector<at::Tensor>& roots);

// Whether gradients go from a root to the node.
bool LeadTo(const std::vector<at::Tensor>& roots, const torch::autograd::Node* node);

// A real tensor to run a backward pass with: 1 for a loss, otherwise values in
// [-1, 1) that depend on `seed` and `index` alone.
at::Tensor ExampleTangent(const at::Tensor& output, bool is_loss, uint64_t seed, int index);

// Gradients of sum_i <roots[i], tangents[i]>; undefined where an input was not
// used. Runs on the calling thread.
std::vector<at::Tensor> Gradients(const std::vector<at::Tensor>& roots, const std::vector<at::Tensor>& tangents,
                                  const std::vector<at::Tensor>& inputs);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_JOINT_H_
