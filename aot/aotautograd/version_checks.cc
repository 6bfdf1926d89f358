// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/version_checks.h"

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <typeinfo>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "aot/aotautograd/joint.h"

namespace cotan::aot {
namespace {

using AutogradNode = torch::autograd::Node;

// Returns the tensors that the node has saved, or none if their versions have changed or the node does not say. Uses
// the interface by which LibTorch's compiled autograd collects them.
std::optional<std::vector<at::Tensor>> SavedTensorsOf(AutogradNode& node) {
  torch::dynamo::autograd::AutogradCompilerCall call(torch::dynamo::autograd::SizeInput::STATIC);
  torch::dynamo::autograd::NodeCall node_call(0, c10::intrusive_ptr<AutogradNode>::reclaim_copy(&node));
  torch::dynamo::autograd::CompiledNodeArgs arguments(call, node_call);
  try {
    node.compiled_args(arguments);
  } catch (const std::exception&) {
    return std::nullopt;
  }
  return call.tensor_args.inputs;
}

// Raises the version of a tensor while it exists.
class RaisedVersion {
 public:
  explicit RaisedVersion(const at::Tensor& tensor)
      : counter_(torch::autograd::impl::version_counter(tensor)), before_(counter_.current_version()) {
    counter_.bump();
  }
  ~RaisedVersion() { counter_.set_version(before_); }
  RaisedVersion(const RaisedVersion&) = delete;
  RaisedVersion& operator=(const RaisedVersion&) = delete;

 private:
  c10::VariableVersion counter_;
  const uint32_t before_;
};

// Returns whether the result of a node is its operand, to autograd another tensor.
bool IsAlias(const Node& node) { return node.op == "aten.detach.default" || node.op == "aten.alias.default"; }

bool IsCustomFunction(const AutogradNode& node) { return absl::StrContains(typeid(node).name(), "7CppNode"); }

}  // namespace

std::vector<bool> SavedWithoutVersionCheck(const std::vector<at::Tensor>& roots, absl::Span<const at::Tensor> tensors) {
  std::vector<bool> unchecked(tensors.size(), false);
  const std::vector<AutogradNode*> nodes = ReachableNodes(roots);
  if (std::none_of(nodes.begin(), nodes.end(), [](const AutogradNode* node) { return IsCustomFunction(*node); })) {
    return unchecked;
  }
  std::vector<at::Tensor> of_custom_functions;
  for (AutogradNode* node : nodes) {
    const std::optional<std::vector<at::Tensor>> saved = SavedTensorsOf(*node);
    if (!saved.has_value()) return unchecked;
    if (!IsCustomFunction(*node)) continue;
    of_custom_functions.insert(of_custom_functions.end(), saved->begin(), saved->end());
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto shares = [&](const at::Tensor& saved) { return saved.is_alias_of(tensors[i]); };
    if (!tensors[i].defined() || std::none_of(of_custom_functions.begin(), of_custom_functions.end(), shares)) continue;
    const RaisedVersion raised(tensors[i]);
    unchecked[i] =
        std::all_of(nodes.begin(), nodes.end(), [](AutogradNode* node) { return SavedTensorsOf(*node).has_value(); });
  }
  return unchecked;
}

bool IsReadByBackwardAlone(const Graph& joint, size_t num_forward_nodes, ValueId value) {
  absl::flat_hash_set<ValueId> computed;
  absl::flat_hash_set<ValueId> same = {value};
  bool is_read = false;
  size_t index = 0;
  for (const Node& node : joint.nodes()) {
    const bool is_forward = index++ < num_forward_nodes;
    for (const ValueId operand : TensorOperands(node)) {
      if (!same.contains(operand) && !computed.contains(operand)) continue;
      if (is_forward && same.contains(operand) && IsAlias(node)) {
        same.insert(node.outputs.begin(), node.outputs.end());
      } else if (is_forward) {
        computed.insert(node.outputs.begin(), node.outputs.end());
        computed.erase(kNoValue);
      } else if (same.contains(operand)) {
        is_read = true;
      } else {
        return false;
      }
    }
  }
  return is_read;
}

}  // namespace cotan::aot
