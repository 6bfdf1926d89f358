#include "aot/lower/fusion_graph.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "aot/graph/verifier.h"

namespace cotan::aot {

int64_t EstimatedCount(const SymIntVector& sizes) {
  constexpr int64_t kAssumedDynamicSize = 64;
  int64_t count = 1;
  for (const SymInt& size : sizes) count *= size.is_constant() ? size.constant() : kAssumedDynamicSize;
  return count;
}

FusionGraph::FusionGraph(Graph& graph) : graph_(graph) {
  for (Node& node : graph_.nodes()) {
    has_convolutions_ = has_convolutions_ || absl::StartsWith(node.op, "prim.convolution");
    AddUnit(std::move(node));
  }
  graph_.nodes().clear();
  for (const GraphOutput& output : graph_.outputs()) {
    if (output.value != kNoValue) is_output_.insert(output.value);
    const bool is_update = output.kind == OutputKind::kStateUpdate || output.kind == OutputKind::kMutatedInput ||
                           output.kind == OutputKind::kInputUpdate;
    if (is_update) new_states_.insert(output.value);
  }
}

void FusionGraph::SetExpr(int id, FusedExpr fused) {
  Unlink(id);
  at(id).expr = std::move(fused);
  Link(id);
}

void FusionGraph::Absorb(int a, int b, FusedExpr merged) {
  Unlink(b);
  Kill(a);
  Unit& into = at(b);
  if (into.node.source.empty()) into.node.source = unit(a).node.source;
  into.order = std::min(into.order, unit(a).order);
  into.expr = std::move(merged);
  Link(b);
}

bool FusionGraph::Verifies(const FusedExpr& fused) const {
  Node node;
  PutTogether(fused, node);
  return VerifyExpr(*node.expr, TypesOf(fused.inputs), TypesOf(fused.outputs)).ok();
}

int FusionGraph::AddUnit(Node node) {
  const int id = static_cast<int>(units_.size());
  Unit unit{std::move(node), std::nullopt, id};
  if (unit.node.expr != nullptr) {
    unit.expr = TakeApart(unit.node);
    Simplify(*unit.expr);
  }
  units_.push_back(std::move(unit));
  Link(id);
  return id;
}

void FusionGraph::Kill(int id) {
  Unlink(id);
  at(id).alive = false;
}

std::vector<ValueId> FusionGraph::OperandsOf(int id) const {
  return unit(id).expr.has_value() ? unit(id).expr->inputs : TensorOperands(unit(id).node);
}

const std::vector<ValueId>& FusionGraph::ResultsOf(int id) const {
  const Unit& made_by = unit(id);
  return made_by.expr.has_value() ? made_by.expr->outputs : made_by.node.outputs;
}

bool FusionGraph::IsExpr(int id) const { return id >= 0 && unit(id).alive && unit(id).expr.has_value(); }

std::vector<TensorType> FusionGraph::TypesOf(const std::vector<ValueId>& values) const {
  std::vector<TensorType> types;
  for (const ValueId value : values) types.push_back(graph_.value(value).type);
  return types;
}

int FusionGraph::Producer(ValueId value) const {
  const auto it = producer_.find(value);
  return it == producer_.end() ? -1 : it->second;
}

const std::set<int>& FusionGraph::UsersOf(ValueId value) { return users_[value]; }

bool FusionGraph::IsView(int id) const {
  static const auto* const kViews = new absl::flat_hash_set<std::string>(
      {"prim.view", "prim.permute", "prim.expand", "prim.slice", "prim.select", "prim.as_strided", "prim.diagonal",
       "prim.unfold", "prim.view_as_real", "prim.view_as_complex"});
  return kViews->contains(unit(id).node.op);
}

ValueId FusionGraph::BehindView(ValueId value) const {
  const int producer = Producer(value);
  if (producer < 0 || unit(producer).node.op != "prim.view") return value;
  return std::get<Use>(unit(producer).node.arguments[0]).value;
}

std::set<int> FusionGraph::Readers(ValueId value) {
  std::set<int> readers;
  for (const int user : UsersOf(value)) {
    if (!IsView(user)) {
      readers.insert(user);
      continue;
    }
    const std::set<int> behind = Readers(unit(user).node.outputs[0]);
    readers.insert(behind.begin(), behind.end());
  }
  return readers;
}

bool FusionGraph::NeededOutside(ValueId value, int a, int b) {
  if (is_output_.contains(value)) return true;
  return std::any_of(UsersOf(value).begin(), UsersOf(value).end(), [&](int user) { return user != a && user != b; });
}

bool FusionGraph::NeededOutsideThroughViews(ValueId value, int a, int b) {
  if (is_output_.contains(value)) return false;  // outputs alone tie nobody
  for (const int user : UsersOf(value)) {
    if (user == a || user == b) continue;
    const Node& node = unit(user).node;
    if (node.op == "prim.view" && !NeededOutsideThroughViews(node.outputs[0], a, b)) continue;
    return true;
  }
  return false;
}

absl::flat_hash_set<int> FusionGraph::Descendants(int a, int b) {
  absl::flat_hash_set<int> found;
  std::vector<int> pending = {a, b};
  while (!pending.empty()) {
    const int id = pending.back();
    pending.pop_back();
    if (id < 0) continue;
    for (const ValueId value : ResultsOf(id)) {
      if (value == kNoValue) continue;
      for (const int user : UsersOf(value)) {
        if (user != a && user != b && found.insert(user).second) pending.push_back(user);
      }
    }
  }
  return found;
}

absl::flat_hash_set<int> FusionGraph::Ancestors(int id) const {
  absl::flat_hash_set<int> found;
  std::vector<int> pending = {id};
  while (!pending.empty()) {
    const int next = pending.back();
    pending.pop_back();
    for (const ValueId value : OperandsOf(next)) {
      const int producer = value == kNoValue ? -1 : Producer(value);
      if (producer >= 0 && found.insert(producer).second) pending.push_back(producer);
    }
  }
  return found;
}

ValueId FusionGraph::ViewOf(ValueId value, const SymIntVector& sizes) {
  if (graph_.value(value).type.sizes == sizes) return value;
  const ValueId source = BehindView(value);
  if (graph_.value(source).type.sizes == sizes) return source;
  const std::string key = absl::StrCat(source, " ", absl::StrJoin(sizes, ",", absl::StreamFormatter()));
  if (const auto it = views_.find(key); it != views_.end()) return it->second;
  const ValueId result = graph_.AddValue({graph_.value(source).type.dtype, sizes, {}});
  AddUnit({"prim.view", {Use{source}, std::vector<SymInt>(sizes.begin(), sizes.end())}, {result}, "", nullptr});
  views_[key] = result;
  return result;
}

ValueId FusionGraph::ViewSource(ValueId value, const SymIntVector& sizes) const {
  if (graph_.value(value).type.sizes == sizes) return value;
  return BehindView(value);
}

void FusionGraph::ApplyReshape(int id, const Reshaped& reshaped) {
  Unlink(id);
  FusedExpr fused = reshaped.fused;
  for (size_t k = 0; k < fused.inputs.size(); ++k) fused.inputs[k] = ViewOf(fused.inputs[k], reshaped.input_sizes[k]);
  const std::vector<ValueId> old_outputs = fused.outputs;
  for (size_t k = 0; k < old_outputs.size(); ++k) {
    const TensorType type = graph_.value(old_outputs[k]).type;
    if (type.sizes == reshaped.output_sizes[k]) continue;
    fused.outputs[k] = graph_.AddValue({type.dtype, reshaped.output_sizes[k], {}});
  }
  Simplify(fused);
  at(id).expr = std::move(fused);
  Link(id);
  for (size_t k = 0; k < old_outputs.size(); ++k) {
    const ValueId now = ExprOf(id).outputs[k];
    if (now == old_outputs[k]) continue;
    const SymIntVector& sizes = graph_.value(old_outputs[k]).type.sizes;
    AddUnit({"prim.view", {Use{now}, std::vector<SymInt>(sizes.begin(), sizes.end())}, {old_outputs[k]}, "", nullptr});
  }
  RebaseViews(old_outputs);
}

void FusionGraph::DropUnused() {
  absl::flat_hash_set<ValueId> live = is_output_;
  std::vector<int> pending;
  absl::flat_hash_set<int> visited;
  const auto visit = [&](ValueId value) {
    const int producer = Producer(value);
    if (producer >= 0 && visited.insert(producer).second) pending.push_back(producer);
  };
  for (const ValueId value : is_output_) visit(value);
  while (!pending.empty()) {
    const int id = pending.back();
    pending.pop_back();
    for (const ValueId value : OperandsOf(id)) {
      if (value == kNoValue) continue;
      live.insert(value);
      visit(value);
    }
  }
  for (size_t i = 0; i < units_.size(); ++i) {
    const int id = static_cast<int>(i);
    if (!unit(static_cast<int>(i)).alive) continue;
    if (!visited.contains(id)) {
      Kill(id);
      continue;
    }
    if (!IsExpr(id)) continue;
    Unlink(id);
    FusedExpr& fused = *at(id).expr;
    for (size_t k = fused.outputs.size(); k-- > 0;) {
      if (live.contains(fused.outputs[k])) continue;
      fused.outputs.erase(fused.outputs.begin() + static_cast<int64_t>(k));
      fused.stores.erase(fused.stores.begin() + static_cast<int64_t>(k));
    }
    Simplify(fused);
    Link(id);
  }
}

absl::Status FusionGraph::Rebuild() {
  std::map<int, std::vector<int>> waiting;  // per unit: those that wait for it
  std::vector<int> missing(units_.size(), 0);
  std::set<std::pair<int, int>> ready;  // (rank, unit)
  std::vector<std::pair<int, int>> ranks(units_.size());
  size_t alive = 0;
  for (size_t i = 0; i < units_.size(); ++i) {
    if (!unit(static_cast<int>(i)).alive) continue;
    ++alive;
    const int id = static_cast<int>(i);
    const std::set<int> needs = Needs(id);
    const bool is_small = IsExpr(id) && EstimatedCount(ExprOf(id).domain) <= kSmallDomain;
    const bool at_once = IsView(id) || IsUpdate(id) || (needs.empty() && is_small);
    ranks[i] = {at_once ? 0 : unit(static_cast<int>(i)).order, id};
    missing[i] = static_cast<int>(needs.size());
    for (const int need : needs) waiting[need].push_back(id);
    if (needs.empty()) ready.insert(ranks[i]);
  }
  size_t placed = 0;
  while (!ready.empty()) {
    const int id = ready.begin()->second;
    ready.erase(ready.begin());
    Unit& next_unit = at(id);
    if (next_unit.expr.has_value()) PutTogether(*next_unit.expr, next_unit.node);
    graph_.nodes().push_back(std::move(next_unit.node));
    ++placed;
    for (const int next : waiting[id]) {
      if (--missing[static_cast<size_t>(next)] == 0) ready.insert(ranks[static_cast<size_t>(next)]);
    }
  }
  return placed == alive ? absl::OkStatus() : absl::InternalError("fusion made a cycle");
}

void FusionGraph::Link(int id) {
  for (const ValueId value : OperandsOf(id)) {
    if (value != kNoValue) users_[value].insert(id);
  }
  for (const ValueId value : ResultsOf(id)) {
    if (value != kNoValue) producer_[value] = id;
  }
}

void FusionGraph::Unlink(int id) {
  for (const ValueId value : OperandsOf(id)) {
    if (value != kNoValue) users_[value].erase(id);
  }
}

void FusionGraph::RebaseViews(const std::vector<ValueId>& values) {
  for (const ValueId value : values) {
    const ValueId source = BehindView(value);
    if (source == value) continue;
    const std::set<int> users = UsersOf(value);
    for (const int user : users) {
      Node& node = at(user).node;
      if (node.op != "prim.view") continue;
      Unlink(user);
      node.arguments[0] = Use{source};
      Link(user);
      const ValueId seen = node.outputs[0];
      if (graph_.value(seen).type.sizes == graph_.value(source).type.sizes) ReplaceUses(seen, source);
    }
  }
}

void FusionGraph::ReplaceUses(ValueId from, ValueId to) {
  const std::set<int> users = UsersOf(from);
  for (const int user : users) {
    if (!IsExpr(user)) continue;
    Unlink(user);
    std::vector<ValueId>& inputs = at(user).expr->inputs;
    std::replace(inputs.begin(), inputs.end(), from, to);
    Simplify(*at(user).expr);
    Link(user);
  }
}

bool FusionGraph::IsUpdate(int id) {
  return IsExpr(id) && std::all_of(ResultsOf(id).begin(), ResultsOf(id).end(),
                                   [&](ValueId value) { return Readers(value).empty() && BecomesState(value); });
}

bool FusionGraph::BecomesState(ValueId value) {
  if (new_states_.contains(value)) return true;
  return std::any_of(UsersOf(value).begin(), UsersOf(value).end(),
                     [&](int user) { return IsView(user) && BecomesState(unit(user).node.outputs[0]); });
}

std::set<int> FusionGraph::Needs(int id) {
  std::set<int> needs;
  const bool is_update = IsUpdate(id);
  for (const ValueId value : OperandsOf(id)) {
    if (value == kNoValue) continue;
    const int producer = Producer(value);
    if (producer >= 0) needs.insert(producer);
    const ValueId source = BehindView(value);
    if (!is_update || Producer(source) >= 0) continue;
    for (const int reader : Readers(source)) {
      if (!IsUpdate(reader)) needs.insert(reader);
    }
  }
  return needs;
}

}  // namespace cotan::aot
