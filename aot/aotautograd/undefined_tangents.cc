// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/undefined_tangents.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "aot/transforms/dead_code.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

// A set of tangents, by index.
using Tangents = std::vector<bool>;

bool IsSubset(const Tangents& part, const Tangents& whole) {
  for (size_t t = 0; t < part.size(); ++t) {
    if (part[t] && !whole[t]) return false;
  }
  return true;
}

Tangents Union(Tangents a, const Tangents& b) {
  for (size_t t = 0; t < a.size(); ++t) a[t] = a[t] || b[t];
  return a;
}

bool IsOne(const Argument& argument) {
  if (const SymInt* integer = std::get_if<SymInt>(&argument)) return *integer == SymInt(1);
  const double* number = std::get_if<double>(&argument);
  return number != nullptr && *number == 1;
}

bool CanBeGradient(DType dtype) { return IsFloatingPoint(dtype) || IsComplex(dtype); }

// Implements GuardUndefinedTangents() for n > 1.
class Guard {
 public:
  explicit Guard(Graph& graph) : graph_(graph), begin_(graph.nodes().begin()) {
    for (const GraphInput& input : graph_.inputs()) {
      if (input.kind == InputKind::kTangent) tangents_.push_back(input);
    }
    for (size_t t = 0; t < tangents_.size(); ++t) {
      Tangents own(tangents_.size());
      own[t] = true;
      reaching_[tangents_[t].value] = own;
    }
  }

  void Run() {
    // Nodes that Visit() inserts are not visited.
    for (auto node = begin_; node != graph_.nodes().end();) Visit(node++);
    AddFlagInputs();
  }

 private:
  // Returns the tangents that reach the value; null if none does.
  const Tangents* Reaching(ValueId value) const {
    const auto found = reaching_.find(value);
    return found == reaching_.end() ? nullptr : &found->second;
  }

  void Visit(Graph::NodeList::iterator node) {
    // Results of effects are tokens, not gradients.
    if (node->op == "cotan.effect.default") return;
    Tangents all;
    bool differ = false;
    for (const ValueId operand : TensorOperands(*node)) {
      const Tangents* reaching = Reaching(operand);
      if (reaching == nullptr) continue;
      differ = differ || (!all.empty() && *reaching != all);
      all = all.empty() ? *reaching : Union(std::move(all), *reaching);
    }
    if (all.empty()) return;
    for (const ValueId output : node->outputs) {
      if (output != kNoValue) reaching_[output] = all;
    }
    if (!differ) return;
    if (IsSumOfGradients(*node)) {
      ChooseSummands(node);
    } else {
      FillOperands(node, all);
    }
  }

  // Returns whether the node adds two gradients of one value, like the accumulation in the autograd
  // engine.
  bool IsSumOfGradients(const Node& node) const {
    if (node.op != "aten.add.Tensor" || node.arguments.size() != 3 || !IsOne(node.arguments[2])) return false;
    const TensorType& type = graph_.value(node.outputs[0]).type;
    if (!CanBeGradient(type.dtype)) return false;
    const auto conforms = [&](const Argument& argument) {
      const Use* use = std::get_if<Use>(&argument);
      return use != nullptr && Reaching(use->value) != nullptr && graph_.value(use->value).type == type;
    };
    return conforms(node.arguments[0]) && conforms(node.arguments[1]);
  }

  // Replaces a + b, the result of `node`, by the sum of the defined operands.
  void ChooseSummands(Graph::NodeList::iterator node) {
    const ValueId a = std::get<Use>(node->arguments[0]).value;
    const ValueId b = std::get<Use>(node->arguments[1]).value;
    const Tangents of_a = *Reaching(a);
    const Tangents of_b = *Reaching(b);
    const ValueId result = node->outputs[0];
    const TensorType type = graph_.value(result).type;
    Node* last = &*node;
    last->outputs[0] = graph_.AddValue(type);
    const auto choose = [&, next = std::next(node)](const Tangents& condition, ValueId otherwise) {
      const ValueId both = last->outputs[0];
      last = &graph_.InsertNode(next, "aten.where.self", {Use{FlagOf(condition)}, Use{both}, Use{otherwise}}, {{type}},
                                node->source);
    };
    if (!IsSubset(of_a, of_b)) choose(of_b, a);  // a may exist without b
    if (!IsSubset(of_b, of_a)) choose(of_a, b);
    last->outputs[0] = result;
  }

  // Replaces operands that may be undefined when `node` runs by zeros in that case.
  void FillOperands(Graph::NodeList::iterator node, const Tangents& all) {
    const auto fill = [&](ValueId& value) {
      const Tangents* reaching = Reaching(value);
      if (reaching != nullptr && *reaching != all) value = Filled(value, node);
    };
    for (Argument& argument : node->arguments) {
      if (Use* use = std::get_if<Use>(&argument)) fill(use->value);
      if (std::vector<Use>* uses = std::get_if<std::vector<Use>>(&argument)) {
        for (Use& use : *uses) fill(use.value);
      }
    }
  }

  // Returns a value equal to `value` if it is defined, and to zeros if not.
  ValueId Filled(ValueId value, Graph::NodeList::iterator before) {
    const TensorType type = graph_.value(value).type;
    if (!CanBeGradient(type.dtype)) return value;
    const auto [entry, is_new] = filled_.try_emplace(value, kNoValue);
    if (!is_new) return entry->second;
    const Tangents reaching = *Reaching(value);
    const Node& where = graph_.InsertNode(before, "aten.where.ScalarOther",
                                          {Use{FlagOf(reaching)}, Use{value}, SymInt(0)}, {{type}}, before->source);
    filled_[value] = where.outputs[0];
    return where.outputs[0];
  }

  // Returns a value bool[]: whether any of `tangents` is defined. The set is a proper subset of all
  // tangents.
  ValueId FlagOf(const Tangents& tangents) {
    if (flags_.empty()) {
      for (size_t t = 0; t < tangents_.size(); ++t) flags_.push_back(graph_.AddValue({DType::kBool, {}, {}}));
    }
    ValueId& any = any_.try_emplace(tangents, kNoValue).first->second;
    for (size_t t = 0; t < tangents.size() && any == kNoValue; ++t) {
      if (!tangents[t]) continue;
      any = flags_[t];
      for (size_t other = t + 1; other < tangents.size(); ++other) {
        if (!tangents[other]) continue;
        any = graph_
                  .InsertNode(begin_, "aten.logical_or.default", {Use{any}, Use{flags_[other]}},
                              {{TensorType{DType::kBool, {}, {}}}})
                  .outputs[0];
      }
    }
    return any;
  }

  // Adds the flags after the tangents if any of them is read.
  void AddFlagInputs() {
    if (flags_.empty()) return;
    std::vector<GraphInput>& inputs = graph_.inputs();
    auto place = std::find_if(inputs.begin(), inputs.end(),
                              [](const GraphInput& input) { return input.kind == InputKind::kTangent; });
    std::advance(place, tangents_.size());
    std::vector<GraphInput> added;
    for (size_t t = 0; t < tangents_.size(); ++t) {
      const auto index = static_cast<int>(tangents_.size() + t);
      added.push_back({flags_[t], InputKind::kTangent, index, absl::StrCat(tangents_[t].name, ".is_defined")});
    }
    inputs.insert(place, added.begin(), added.end());
  }

  Graph& graph_;
  const Graph::NodeList::iterator begin_;  // first node of the original graph
  std::vector<GraphInput> tangents_;
  absl::flat_hash_map<ValueId, Tangents> reaching_;  // of values that any tangent reaches
  absl::flat_hash_map<ValueId, ValueId> filled_;
  absl::flat_hash_map<Tangents, ValueId> any_;
  std::vector<ValueId> flags_;  // by tangent; empty before the first is read
};

}  // namespace

void RemoveMaterializeGrads(Graph& joint) {
  for (auto node = joint.nodes().begin(); node != joint.nodes().end();) {
    if (node->op != kMaterializeGrads) {
      ++node;
      continue;
    }
    const std::vector<ValueId> operands = TensorOperands(*node);
    for (size_t i = 0; i < operands.size(); ++i) joint.ReplaceAllUses(node->outputs[i], operands[i]);
    node = joint.nodes().erase(node);
  }
}

absl::Status GuardUndefinedTangents(Graph& joint) {
  const auto num_tangents = std::count_if(joint.inputs().begin(), joint.inputs().end(),
                                          [](const GraphInput& input) { return input.kind == InputKind::kTangent; });
  if (num_tangents > 1) {
    COTAN_RETURN_IF_ERROR(EliminateDeadCode(joint).status());
    Guard(joint).Run();
    joint.Compact();
  }
  RemoveMaterializeGrads(joint);
  return absl::OkStatus();
}

}  // namespace cotan::aot
