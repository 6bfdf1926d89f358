// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/tangent_markers.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "aot/aotautograd/joint.h"
#include "aot/aotautograd/undefined_tangents.h"
#include "aot/capture/recorder.h"
#include "aot/ir/graph.h"
#include "base/sym_int.h"

namespace cotan::aot {
namespace {

using AutogradNode = torch::autograd::Node;
using torch::autograd::variable_list;

// Returns a copy of the tensor. In the graph it is not a clone, but `op` of the tensor and of `others`.
at::Tensor Marked(const at::Tensor& tensor, absl::string_view op, const std::vector<Argument>& others) {
  at::Tensor copy = tensor.clone();
  Recorder& recorder = *CurrentRecorder();
  const ValueId value = recorder.ValueOf(copy);
  Graph::NodeList& nodes = recorder.graph().nodes();
  const auto clone = std::find_if(nodes.rbegin(), nodes.rend(), [value](const Node& node) {
    return std::find(node.outputs.begin(), node.outputs.end(), value) != node.outputs.end();
  });
  if (clone == nodes.rend() || clone->op != "aten.clone.default") return copy;
  clone->op = std::string(op);
  clone->arguments.resize(1);
  clone->arguments.insert(clone->arguments.end(), others.begin(), others.end());
  return copy;
}

// Marks a gradient by kGradientGate, and its derivatives by the second form of it.
struct Gate : torch::autograd::Function<Gate> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& gradient, int64_t other) {
    context->set_materialize_grads(false);
    std::vector<Argument> others;
    if (other != kNoValue) others.emplace_back(Use{static_cast<ValueId>(other)});
    at::Tensor marked = Marked(gradient, kGradientGate, others);
    context->saved_data["value"] = static_cast<int64_t>(CurrentRecorder()->ValueOf(marked));
    return marked;
  }
  static variable_list backward(torch::autograd::AutogradContext* context, const variable_list& gradients) {
    if (!gradients[0].defined()) return {at::Tensor(), at::Tensor()};
    return {Gate::apply(gradients[0], context->saved_data["value"].toInt()), at::Tensor()};
  }
};

// Marks gradients that leave a node.
class GateHook final : public torch::autograd::FunctionPostHook {
 public:
  // `marks`: by edge of the node.
  GateHook(std::vector<bool> marks, std::weak_ptr<const bool> active)
      : marks_(std::move(marks)), active_(std::move(active)) {}

  variable_list operator()(const variable_list& outputs, const variable_list& /*inputs*/) override {
    variable_list leaving = outputs;
    if (active_.expired()) return leaving;
    for (size_t i = 0; i < leaving.size() && i < marks_.size(); ++i) {
      if (marks_[i] && leaving[i].defined()) leaving[i] = Gate::apply(leaving[i], int64_t{kNoValue});
    }
    return leaving;
  }

 private:
  const std::vector<bool> marks_;
  const std::weak_ptr<const bool> active_;
};

// Returns the number of nodes and roots that give a node a gradient, and 1 more for a source.
absl::flat_hash_map<const AutogradNode*, int> CountOrigins(const std::vector<AutogradNode*>& nodes,
                                                           const std::vector<at::Tensor>& roots,
                                                           const std::vector<at::Tensor>& sources) {
  absl::flat_hash_map<const AutogradNode*, int> count;
  for (const std::vector<at::Tensor>* ends : {&roots, &sources}) {
    for (const at::Tensor& tensor : *ends) ++count[torch::autograd::impl::gradient_edge(tensor).function.get()];
  }
  for (const AutogradNode* node : nodes) {
    absl::flat_hash_set<const AutogradNode*> next;
    for (const torch::autograd::Edge& edge : node->next_edges()) next.insert(edge.function.get());
    for (const AutogradNode* reached : next) ++count[reached];
  }
  return count;
}

}  // namespace

std::vector<at::Tensor> MarkTangents(const std::vector<at::Tensor>& tangents, const std::vector<at::Tensor>& flags,
                                     int order) {
  std::vector<Use> uses;
  for (const at::Tensor& flag : flags) uses.push_back(Use{CurrentRecorder()->ValueOf(flag)});
  std::vector<at::Tensor> marked;
  for (size_t t = 0; t < tangents.size(); ++t) {
    marked.push_back(
        Marked(tangents[t], kMarkedTangent, {uses, SymInt(static_cast<int64_t>(t)), SymInt(int64_t{order})}));
  }
  return marked;
}

GradientGates::GradientGates(const std::vector<at::Tensor>& roots, const std::vector<at::Tensor>& sources)
    : active_(std::make_shared<const bool>(true)) {
  const std::vector<AutogradNode*> nodes = ReachableNodes(roots);
  const absl::flat_hash_map<const AutogradNode*, int> origins = CountOrigins(nodes, roots, sources);
  for (AutogradNode* node : nodes) {
    std::vector<bool> marks;
    for (const torch::autograd::Edge& edge : node->next_edges()) {
      const AutogradNode* const reached = edge.function.get();
      marks.push_back(edge.is_valid() && origins.at(reached) > 1);
    }
    if (std::find(marks.begin(), marks.end(), true) == marks.end()) continue;
    node->add_post_hook(std::make_unique<GateHook>(std::move(marks), active_));
  }
}

}  // namespace cotan::aot
