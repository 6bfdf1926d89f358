// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/joint.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/philox.h"

namespace cotan::aot {

absl::Status CheckLoss(absl::Span<const at::Tensor> outputs, int loss_output) {
  if (loss_output < 0 || static_cast<size_t>(loss_output) >= outputs.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the loss is output ", loss_output, ", but the function returns ", outputs.size(), " tensors"));
  }
  const at::Tensor& loss = outputs[static_cast<size_t>(loss_output)];
  const auto invalid = [&](absl::string_view reason) {
    return absl::InvalidArgumentError(absl::StrCat("output ", loss_output, " cannot be the loss: ", reason));
  };
  if (!loss.is_floating_point()) {
    return invalid(absl::StrCat("its dtype ", toString(loss.scalar_type()), " is not floating point"));
  }
  if (loss.numel() != 1) {
    return invalid(absl::StrCat("it has the sizes ", c10::str(loss.sizes()), "; reduce it to a scalar (sum, mean)"));
  }
  if (!loss.requires_grad()) {
    return invalid("it does not depend on any tensor that requires grad (was it detached?)");
  }
  return absl::OkStatus();
}

bool IsDifferentiable(const at::Tensor& tensor) {
  return tensor.requires_grad() && torch::autograd::impl::gradient_edge(tensor).function != nullptr;
}

std::vector<torch::autograd::Node*> ReachableNodes(const std::vector<at::Tensor>& roots) {
  std::vector<torch::autograd::Node*> nodes;
  absl::flat_hash_set<const torch::autograd::Node*> seen;
  const auto visit = [&](torch::autograd::Node* next) {
    if (next != nullptr && seen.insert(next).second) nodes.push_back(next);
  };
  for (const at::Tensor& root : roots) visit(torch::autograd::impl::gradient_edge(root).function.get());
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const torch::autograd::Edge& edge : nodes[i]->next_edges()) visit(edge.function.get());
  }
  return nodes;
}

bool IsReachable(const std::vector<at::Tensor>& roots, const torch::autograd::Node* node) {
  const std::vector<torch::autograd::Node*> nodes = ReachableNodes(roots);
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

std::vector<std::vector<int>> ComputedFrom(const std::vector<at::Tensor>& tensors) {
  std::vector<std::vector<int>> sources(tensors.size());
  absl::flat_hash_map<std::pair<const torch::autograd::Node*, uint32_t>, std::vector<int>> positions;  // by edge
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) continue;
    const torch::autograd::Edge edge = torch::autograd::impl::gradient_edge(tensors[i]);
    if (edge.function == nullptr) continue;
    positions[{edge.function.get(), edge.input_nr}].push_back(static_cast<int>(i));
  }
  if (positions.size() < 2) return sources;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) continue;
    absl::btree_set<int> found;
    for (const torch::autograd::Node* node : ReachableNodes({tensors[i]})) {
      for (const torch::autograd::Edge& edge : node->next_edges()) {
        const auto entry = positions.find({edge.function.get(), edge.input_nr});
        if (entry != positions.end()) found.insert(entry->second.begin(), entry->second.end());
      }
    }
    sources[i].assign(found.begin(), found.end());
  }
  return sources;
}

at::Tensor ExampleTangent(const at::Tensor& output, bool is_loss, uint64_t seed, int index) {
  const at::TensorOptions options(output.scalar_type());
  if (is_loss) return at::ones(output.sizes(), options);
  at::Tensor tangent = at::empty(output.sizes(), at::TensorOptions(at::kFloat));
  float* data = tangent.mutable_data_ptr<float>();
  // A stream that differs from that of the function's random ops.
  const uint64_t stream = ~seed - static_cast<uint64_t>(index);
  for (int64_t i = 0; i < tangent.numel(); ++i) {
    const uint64_t element = static_cast<uint64_t>(i);
    data[i] = 2 * UniformFloat(Philox(stream, element / 4).lane[element % 4]) - 1;
  }
  return tangent.to(options);
}

std::vector<at::Tensor> Gradients(const std::vector<at::Tensor>& roots, const std::vector<at::Tensor>& tangents,
                                  const std::vector<at::Tensor>& inputs) {
  return torch::autograd::grad(roots, inputs, tangents, /*retain_graph=*/false,
                               /*create_graph=*/false, /*allow_unused=*/true);
}

}  // namespace cotan::aot
