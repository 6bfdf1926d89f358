// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/undefined_tangents.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "aot/aotautograd/flag_condition.h"
#include "aot/transforms/dead_code.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

bool IsOne(const Argument& argument) {
  if (const SymInt* integer = std::get_if<SymInt>(&argument)) return *integer == SymInt(1);
  const double* number = std::get_if<double>(&argument);
  return number != nullptr && *number == 1;
}

bool CanBeGradient(DType dtype) { return IsFloatingPoint(dtype) || IsComplex(dtype); }

bool IsMarker(const Node& node) {
  return node.op == kMaterializeGrads || node.op == kMarkedTangent || node.op == kGradientGate;
}

bool IsTangent(const GraphInput& input) { return input.kind == InputKind::kTangent; }
bool IsMarkedTangent(const Node& node) { return node.op == kMarkedTangent; }

// Calls `visit` with each operand of the node, which it may replace.
template <typename Visit>
void VisitOperands(Node& node, Visit visit) {
  for (Argument& argument : node.arguments) {
    if (Use* use = std::get_if<Use>(&argument)) visit(use->value);
    if (std::vector<Use>* uses = std::get_if<std::vector<Use>>(&argument)) {
      for (Use& use : *uses) visit(use.value);
    }
  }
}

// A kMarkedTangent node.
struct MarkedTangent {
  FlagSet flags;  // of all tangents of the order; empty: the tangent is always defined
  ValueId flag = kNoValue;
  int order = 0;
};

MarkedTangent ReadMarkedTangent(const Node& node) {
  MarkedTangent tangent;
  for (const Use& use : std::get<std::vector<Use>>(node.arguments[1])) tangent.flags.push_back(use.value);
  const auto index = static_cast<size_t>(std::get<SymInt>(node.arguments[2]).constant());
  if (!tangent.flags.empty()) tangent.flag = tangent.flags[index];
  std::sort(tangent.flags.begin(), tangent.flags.end());
  tangent.order = static_cast<int>(std::get<SymInt>(node.arguments[3]).constant());
  return tangent;
}

// Implements GuardUndefinedTangents().
class Guard {
 public:
  explicit Guard(Graph& graph) : graph_(graph), begin_(graph.nodes().begin()) {
    absl::btree_map<int, FlagSet> groups;
    for (const Node& node : graph_.nodes()) {
      if (!IsMarkedTangent(node)) continue;
      MarkedTangent tangent = ReadMarkedTangent(node);
      groups[tangent.order] = std::move(tangent.flags);
    }
    const int order = groups.empty() ? 1 : groups.rbegin()->first + 1;
    std::copy_if(graph_.inputs().begin(), graph_.inputs().end(), std::back_inserter(tangents_), IsTangent);
    for (const GraphInput& tangent : tangents_) {
      Definedness own{order, Always()};
      if (tangents_.size() > 1) {
        flags_.push_back(graph_.AddValue({DType::kBool, {}, {}}));
        own.condition = AllOf(FlagSet{flags_.back()});
      }
      defined_[tangent.value] = std::move(own);
    }
    groups[order] = flags_;
    groups_.resize(static_cast<size_t>(order) + 1);
    for (auto& [of_order, flags] : groups) groups_[static_cast<size_t>(of_order)] = std::move(flags);
  }

  void Run() {
    // Nodes that Visit() inserts are not visited.
    for (auto node = begin_; node != graph_.nodes().end();) Visit(node++);
    for (GraphOutput& output : graph_.outputs()) FillResult(output);
    AddFlagInputs();
  }

 private:
  // When a gradient is defined. `order` is the highest order of the tangents that reach it.
  struct Definedness {
    int order = 0;
    FlagCondition condition;
  };

  // Returns null if no tangent reaches the value, so that it is always defined.
  const Definedness* Find(ValueId value) const {
    const auto found = defined_.find(value);
    return found == defined_.end() ? nullptr : &found->second;
  }

  void Visit(Graph::NodeList::iterator node) {
    // Results of effects are tokens, not gradients.
    if (node->op == "cotan.effect.default") return;
    if (IsMarkedTangent(*node)) return VisitMarkedTangent(*node);
    if (node->op == kGradientGate) return VisitGate(*node);
    int order = 0;
    const std::vector<ValueId> operands = TensorOperands(*node);
    for (const ValueId operand : operands) {
      if (const Definedness* defined = Find(operand)) order = std::max(order, defined->order);
    }
    if (order == 0) return;
    FlagCondition any;
    for (const ValueId operand : operands) {
      const Definedness* defined = Find(operand);
      if (defined == nullptr || defined->order != order) continue;
      any = any.empty() ? defined->condition : Either(any, defined->condition, groups_);
    }
    for (const ValueId output : node->outputs) {
      if (output != kNoValue) defined_[output] = {order, any};
    }
    if (IsSumOfGradients(*node, order)) {
      ChooseSummands(node);
    } else {
      FillOperands(node, any);
    }
  }

  void VisitMarkedTangent(const Node& node) {
    const MarkedTangent tangent = ReadMarkedTangent(node);
    Definedness defined{tangent.order, Always()};
    if (tangent.flag != kNoValue) defined.condition = AllOf(FlagSet{tangent.flag});
    defined_[node.outputs[0]] = std::move(defined);
  }

  void VisitGate(const Node& node) {
    const std::vector<ValueId> operands = TensorOperands(node);
    const Definedness* gradient = Find(operands[0]);
    if (gradient == nullptr) return;
    Definedness defined = *gradient;
    const Definedness* other = operands.size() > 1 ? Find(operands[1]) : nullptr;
    if (other != nullptr) defined.condition = Both(defined.condition, other->condition, groups_);
    defined_[node.outputs[0]] = std::move(defined);
  }

  // Returns whether the node adds two gradients of one value, like the accumulation in the autograd
  // engine.
  bool IsSumOfGradients(const Node& node, int order) const {
    if (node.op != "aten.add.Tensor" || node.arguments.size() != 3 || !IsOne(node.arguments[2])) return false;
    const TensorType& type = graph_.value(node.outputs[0]).type;
    if (!CanBeGradient(type.dtype)) return false;
    const auto conforms = [&](const Argument& argument) {
      const Use* use = std::get_if<Use>(&argument);
      if (use == nullptr || graph_.value(use->value).type != type) return false;
      const Definedness* defined = Find(use->value);
      return defined != nullptr && defined->order == order;
    };
    return conforms(node.arguments[0]) && conforms(node.arguments[1]);
  }

  // Replaces a + b, the result of `node`, by the sum of the defined operands.
  void ChooseSummands(Graph::NodeList::iterator node) {
    const ValueId a = std::get<Use>(node->arguments[0]).value;
    const ValueId b = std::get<Use>(node->arguments[1]).value;
    const FlagCondition of_a = Find(a)->condition;
    const FlagCondition of_b = Find(b)->condition;
    const ValueId result = node->outputs[0];
    const TensorType type = graph_.value(result).type;
    Node* last = &*node;
    last->outputs[0] = graph_.AddValue(type);
    const auto choose = [&, next = std::next(node)](const FlagCondition& condition, ValueId otherwise) {
      const ValueId both = last->outputs[0];
      last = &graph_.InsertNode(next, "aten.where.self", {Use{FlagOf(condition)}, Use{both}, Use{otherwise}}, {{type}},
                                node->source);
    };
    if (!Implies(of_a, of_b)) choose(of_b, a);  // a may exist without b
    if (!Implies(of_b, of_a)) choose(of_a, b);
    last->outputs[0] = result;
  }

  // Replaces operands that may be undefined when `node` runs, which is if `runs` is true, by zeros in that case.
  void FillOperands(Graph::NodeList::iterator node, const FlagCondition& runs) {
    VisitOperands(*node, [&](ValueId& value) {
      const Definedness* defined = Find(value);
      if (defined != nullptr && !Implies(runs, defined->condition)) value = Filled(value, node);
    });
  }

  // The caller takes a result for defined if a tangent of its order that reaches it is.
  void FillResult(GraphOutput& output) {
    const bool is_result = output.kind == OutputKind::kGradient || output.kind == OutputKind::kUserOutput ||
                           output.kind == OutputKind::kIntermediateBase;
    if (!is_result) return;
    const Definedness* defined = Find(output.value);
    if (defined == nullptr) return;
    const FlagCondition seen = RestrictedTo(groups_[static_cast<size_t>(defined->order)], defined->condition);
    if (!Implies(seen, defined->condition)) output.value = Filled(output.value, graph_.nodes().end());
  }

  // Returns a value equal to `value` if it is defined, and to zeros if not.
  ValueId Filled(ValueId value, Graph::NodeList::iterator before) {
    const TensorType type = graph_.value(value).type;
    if (!CanBeGradient(type.dtype)) return value;
    const auto [entry, is_new] = filled_.try_emplace(value, kNoValue);
    if (!is_new) return entry->second;
    const ValueId flag = FlagOf(Find(value)->condition);
    const std::string source = before == graph_.nodes().end() ? "" : before->source;
    const Node& where =
        graph_.InsertNode(before, "aten.where.ScalarOther", {Use{flag}, Use{value}, SymInt(0)}, {{type}}, source);
    filled_[value] = where.outputs[0];
    return where.outputs[0];
  }

  // Returns a value bool[]: the condition, which is not Always().
  ValueId FlagOf(const FlagCondition& condition) {
    if (const auto found = values_.find(condition); found != values_.end()) return found->second;
    ValueId value = kNoValue;
    const auto combine = [&](absl::string_view op, ValueId next) {
      if (value == kNoValue) return next;
      return graph_.InsertNode(begin_, std::string(op), {Use{value}, Use{next}}, {{TensorType{DType::kBool, {}, {}}}})
          .outputs[0];
    };
    if (condition.size() > 1) {
      for (const FlagSet& set : condition) value = combine("aten.logical_or.default", FlagOf(AllOf(set)));
    } else {
      for (const ValueId flag : *condition.begin()) {
        reads_own_flag_ = reads_own_flag_ || std::find(flags_.begin(), flags_.end(), flag) != flags_.end();
        value = combine("aten.logical_and.default", flag);
      }
    }
    return values_[condition] = value;
  }

  // Adds the flags of the graph's own tangents after these if any of them is read.
  void AddFlagInputs() {
    if (!reads_own_flag_) return;
    std::vector<GraphInput>& inputs = graph_.inputs();
    auto place = std::find_if(inputs.begin(), inputs.end(), IsTangent);
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
  FlagSet flags_;                                      // by tangent; empty if there is only one
  std::vector<FlagSet> groups_;                        // by order
  absl::flat_hash_map<ValueId, Definedness> defined_;  // of values that a tangent reaches
  absl::flat_hash_map<ValueId, ValueId> filled_;
  absl::btree_map<FlagCondition, ValueId> values_;
  bool reads_own_flag_ = false;
};

}  // namespace

void RemoveGradientMarkers(Graph& joint) {
  absl::flat_hash_map<ValueId, ValueId> operand_of;  // by result of a marker
  const auto replace = [&](ValueId& value) {
    if (const auto found = operand_of.find(value); found != operand_of.end()) value = found->second;
  };
  for (auto node = joint.nodes().begin(); node != joint.nodes().end();) {
    VisitOperands(*node, replace);
    if (!IsMarker(*node)) {
      ++node;
      continue;
    }
    const std::vector<ValueId> operands = TensorOperands(*node);
    for (size_t i = 0; i < node->outputs.size(); ++i) operand_of[node->outputs[i]] = operands[i];
    node = joint.nodes().erase(node);
  }
  for (GraphOutput& output : joint.outputs()) replace(output.value);
}

absl::Status GuardUndefinedTangents(Graph& joint) {
  const auto num_tangents = std::count_if(joint.inputs().begin(), joint.inputs().end(), IsTangent);
  const bool has_orders = std::any_of(joint.nodes().begin(), joint.nodes().end(), IsMarkedTangent);
  if (num_tangents > 1 || has_orders) {
    COTAN_RETURN_IF_ERROR(EliminateDeadCode(joint).status());
    Guard(joint).Run();
    joint.Compact();
  }
  RemoveGradientMarkers(joint);
  return absl::OkStatus();
}

}  // namespace cotan::aot
