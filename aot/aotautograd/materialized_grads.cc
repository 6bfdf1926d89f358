// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/materialized_grads.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

#include <algorithm>
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>

#include "absl/strings/match.h"
#include "aot/aotautograd/joint.h"
#include "aot/aotautograd/undefined_tangents.h"

namespace cotan::aot {
namespace {

// Records the gradients that enter a node, as clones without other uses.
class MaterializeHook final : public torch::autograd::FunctionPreHook {
 public:
  MaterializeHook(Recorder& recorder, std::weak_ptr<std::vector<std::vector<ValueId>>> clones)
      : recorder_(recorder), clones_(std::move(clones)) {}

  torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override {
    torch::autograd::variable_list entering = gradients;
    const std::shared_ptr<std::vector<std::vector<ValueId>>> all = clones_.lock();
    if (all == nullptr) return entering;
    std::vector<ValueId>& clones = all->emplace_back();
    for (at::Tensor& gradient : entering) {
      if (!gradient.defined()) continue;
      gradient = gradient.clone();
      clones.push_back(recorder_.ValueOf(gradient));
    }
    return entering;
  }

 private:
  Recorder& recorder_;
  const std::weak_ptr<std::vector<std::vector<ValueId>>> clones_;
};

// Returns whether the node replaces undefined gradients by zeros, as torch::autograd::Function does
// unless materialize_grads is off. Formulas of LibTorch's own nodes do it where they need it.
bool MaterializesGrads(const torch::autograd::Node& node) {
  return node.num_inputs() > 1 && absl::StrContains(typeid(node).name(), "7CppNode");
}

}  // namespace

void MaterializedGrads::AddHooks(const std::vector<at::Tensor>& roots) {
  for (torch::autograd::Node* node : ReachableNodes(roots)) {
    if (MaterializesGrads(*node)) node->add_pre_hook(std::make_unique<MaterializeHook>(recorder_, clones_));
  }
}

void MaterializedGrads::ReplaceClones() {
  Graph& graph = recorder_.graph();
  for (const std::vector<ValueId>& clones : *clones_) {
    std::vector<Graph::NodeList::iterator> nodes;
    for (auto node = graph.nodes().begin(); node != graph.nodes().end(); ++node) {
      if (node->op != "aten.clone.default") continue;
      if (std::find(clones.begin(), clones.end(), node->outputs[0]) != clones.end()) nodes.push_back(node);
    }
    if (nodes.size() < 2 || nodes.size() != clones.size()) continue;
    std::vector<Argument> operands;
    for (const auto node : nodes) operands.push_back(node->arguments[0]);
    Node& last = *nodes.back();
    last.op = std::string(kMaterializeGrads);
    last.arguments = std::move(operands);
    last.outputs = clones;
    nodes.pop_back();
    for (const auto node : nodes) graph.nodes().erase(node);
  }
}

}  // namespace cotan::aot
