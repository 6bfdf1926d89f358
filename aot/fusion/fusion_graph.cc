// SPDX-License-Identifier: Apache-2.0

#include "aot/fusion/fusion_graph.h"

#include <algorithm>
#include <map>
#include <queue>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "aot/ir/prim_node.h"
#include "aot/ir/verifier.h"

namespace cotan::aot {
namespace {

Node ViewNode(ValueId source, const SymIntVector& sizes, ValueId result) {
  return {std::string(PrimName(PrimOp::kView)), {Use{source}, ToSymInts(sizes)}, {result}, "", nullptr};
}

}  // namespace

FusionGraph::FusionGraph(Graph& graph) : graph_(graph) {
  for (Node& node : graph_.nodes()) {
    has_convolutions_ = has_convolutions_ || IsPrim(node, PrimKind::kConvolution);
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

void FusionGraph::MergeInto(int a, int b, FusedExpr merged) {
  Unlink(b);
  Erase(a);
  FusionNode& into = at(b);
  if (into.node.source.empty()) into.node.source = unit(a).node.source;
  into.order = std::min(into.order, unit(a).order);
  into.expr = std::move(merged);
  PlaceMerged(a, b);
  Link(b);
}

bool FusionGraph::Verifies(const FusedExpr& fused) const {
  Node node;
  fused.ToNode(node);
  return VerifyExpr(*node.expr, TypesOf(fused.inputs), TypesOf(fused.outputs)).ok();
}

int FusionGraph::AddUnit(Node node) {
  const int id = static_cast<int>(units_.size());
  FusionNode unit{std::move(node), std::nullopt, id};
  if (unit.node.expr != nullptr) {
    unit.expr = FusedExpr::FromNode(unit.node);
    Simplify(*unit.expr);
  }
  units_.push_back(std::move(unit));
  Place(id);
  Link(id);
  return id;
}

void FusionGraph::Erase(int id) {
  Unlink(id);
  at(id).alive = false;
}

std::vector<ValueId> FusionGraph::OperandsOf(int id) const {
  return unit(id).expr.has_value() ? unit(id).expr->inputs : TensorOperands(unit(id).node);
}

const std::vector<ValueId>& FusionGraph::ResultsOf(int id) const {
  const FusionNode& made_by = unit(id);
  return made_by.expr.has_value() ? made_by.expr->outputs : made_by.node.outputs;
}

bool FusionGraph::IsExpr(int id) const { return id >= 0 && unit(id).alive && unit(id).expr.has_value(); }

std::vector<TensorType> FusionGraph::TypesOf(const std::vector<ValueId>& values) const {
  std::vector<TensorType> types;
  for (const ValueId value : values) types.push_back(graph_.value(value).type);
  return types;
}

int FusionGraph::Producer(ValueId value) const {
  return value >= 0 && static_cast<size_t>(value) < producer_.size() ? producer_[static_cast<size_t>(value)] : -1;
}

const std::set<int>& FusionGraph::UsersOf(ValueId value) {
  MakeRoom(value);
  return users_[static_cast<size_t>(value)];
}

bool FusionGraph::IsView(int id) const { return aot::IsView(unit(id).node); }

ValueId FusionGraph::StripReshape(ValueId value) const {
  const int producer = Producer(value);
  if (producer < 0 || !IsPrim(unit(producer).node, PrimOp::kView)) return value;
  return OperandOf(unit(producer).node, "x");
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
  if (is_output_.contains(value)) return false;  // graph outputs add no dependency
  for (const int user : UsersOf(value)) {
    if (user == a || user == b) continue;
    const Node& node = unit(user).node;
    if (IsPrim(node, PrimOp::kView) && !NeededOutsideThroughViews(node.outputs[0], a, b)) continue;
    return true;
  }
  return false;
}

bool FusionGraph::DependsOnEither(absl::Span<const ValueId> values, int a, int b) {
  RestoreOrder();
  absl::flat_hash_set<int> targets;
  int last = -1;  // place of the last target; units after it do not reach a target
  for (const ValueId value : values) {
    const int producer = Producer(value);
    if (producer < 0 || producer == a || producer == b) continue;
    targets.insert(producer);
    last = std::max(last, place_[static_cast<size_t>(producer)]);
  }
  return MarkDependents({a, b}, last + 1, targets);
}

bool FusionGraph::MarkDependents(std::vector<int> pending, int end, const absl::flat_hash_set<int>& targets) {
  ClearMarks();
  for (const int id : pending) Mark(id);
  while (!pending.empty()) {
    const int id = pending.back();
    pending.pop_back();
    for (const ValueId value : ResultsOf(id)) {
      if (value == kNoValue) continue;
      for (const int user : UsersOf(value)) {
        if (place_[static_cast<size_t>(user)] >= end || !Mark(user)) continue;
        if (targets.contains(user)) return true;
        pending.push_back(user);
      }
    }
  }
  return false;
}

bool FusionGraph::WaitsFor(int id, int other, absl::FunctionRef<bool(int)> kind) {
  RestoreOrder();
  // Visits units from the last place to the first: a unit's readers come before it.
  constexpr char kOfOther = 1;
  constexpr char kOfId = 2;
  seen_.resize(sequence_.size(), 0);
  std::vector<size_t> seen_places;
  std::priority_queue<size_t> pending;
  int only_of_id = 0;  // places that were seen from `id` only, and not visited
  const auto see = [&](int unit, char whose) {
    for (const ValueId value : OperandsOf(unit)) {
      const int producer = Producer(value);
      if (producer < 0) continue;
      const auto place = static_cast<size_t>(place_[static_cast<size_t>(producer)]);
      const char before = seen_[place];
      seen_[place] |= whose;
      if (before == 0) {
        seen_places.push_back(place);
        pending.push(place);
      }
      only_of_id += (seen_[place] == kOfId ? 1 : 0) - (before == kOfId ? 1 : 0);
    }
  };
  see(other, kOfOther);
  see(id, kOfId);
  bool waits = false;
  while (only_of_id > 0 && !waits) {
    const char whose = seen_[pending.top()];
    const int unit = sequence_[pending.top()];
    pending.pop();
    if (whose == kOfId) --only_of_id;
    waits = whose == kOfId && kind(unit);
    see(unit, whose);
  }
  for (const size_t seen : seen_places) seen_[seen] = 0;
  return waits;
}

ValueId FusionGraph::ViewOf(ValueId value, const SymIntVector& sizes) {
  if (graph_.value(value).type.sizes == sizes) return value;
  const ValueId source = StripReshape(value);
  if (graph_.value(source).type.sizes == sizes) return source;
  const std::string key = absl::StrCat(source, " ", absl::StrJoin(sizes, ",", absl::StreamFormatter()));
  // DropUnused() may have removed an earlier view.
  if (const auto it = views_.find(key); it != views_.end() && unit(Producer(it->second)).alive) return it->second;
  const ValueId result = graph_.AddValue({graph_.value(source).type.dtype, sizes, {}});
  AddUnit(ViewNode(source, sizes, result));
  views_[key] = result;
  return result;
}

ValueId FusionGraph::ViewSource(ValueId value, const SymIntVector& sizes) const {
  if (graph_.value(value).type.sizes == sizes) return value;
  return StripReshape(value);
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
    AddUnit(ViewNode(now, sizes, old_outputs[k]));
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
      Erase(id);
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
    FusionNode& next_unit = at(id);
    if (next_unit.expr.has_value()) next_unit.expr->ToNode(next_unit.node);
    graph_.nodes().push_back(std::move(next_unit.node));
    ++placed;
    for (const int next : waiting[id]) {
      if (--missing[static_cast<size_t>(next)] == 0) ready.insert(ranks[static_cast<size_t>(next)]);
    }
  }
  return placed == alive ? absl::OkStatus() : absl::InternalError("fusion made a cycle");
}

void FusionGraph::MakeRoom(ValueId value) {
  const auto size = static_cast<size_t>(value) + 1;
  if (users_.size() < size) users_.resize(size);
  if (producer_.size() < size) producer_.resize(size, -1);
}

void FusionGraph::Link(int id) {
  for (const ValueId value : OperandsOf(id)) {
    if (value == kNoValue) continue;
    MakeRoom(value);
    users_[static_cast<size_t>(value)].insert(id);
    const int producer = Producer(value);
    if (producer >= 0 && place_[static_cast<size_t>(producer)] > place_[static_cast<size_t>(id)]) in_order_ = false;
  }
  for (const ValueId value : ResultsOf(id)) {
    if (value == kNoValue) continue;
    MakeRoom(value);
    producer_[static_cast<size_t>(value)] = id;
  }
}

void FusionGraph::Unlink(int id) {
  for (const ValueId value : OperandsOf(id)) {
    if (value == kNoValue) continue;
    MakeRoom(value);
    users_[static_cast<size_t>(value)].erase(id);
  }
}

void FusionGraph::Place(int id) {
  // The units of the graph are appended in order.
  int place = static_cast<int>(sequence_.size());
  if (!graph_.nodes().empty()) {
    sequence_.push_back(id);
    place_.push_back(place);
    return;
  }
  place = 0;
  for (const ValueId value : OperandsOf(id)) {
    const int producer = Producer(value);
    if (producer >= 0) place = std::max(place, place_[static_cast<size_t>(producer)] + 1);
  }
  sequence_.insert(sequence_.begin() + place, id);
  place_.push_back(place);
  for (auto i = static_cast<size_t>(place); i < sequence_.size(); ++i) {
    place_[static_cast<size_t>(sequence_[i])] = static_cast<int>(i);
  }
}

void FusionGraph::PlaceMerged(int a, int b) {
  const auto [first, last] = std::minmax(place_[static_cast<size_t>(a)], place_[static_cast<size_t>(b)]);
  MarkDependents({b}, last, /*targets=*/{});
  // Between them: units that do not depend on `b`, then `b`, then units that do.
  const std::vector<int> between(sequence_.begin() + first, sequence_.begin() + last + 1);
  int place = first;
  const auto put = [&](int id) {
    sequence_[static_cast<size_t>(place)] = id;
    place_[static_cast<size_t>(id)] = place;
    ++place;
  };
  const auto is_behind = [&](int id) { return mark_[static_cast<size_t>(id)] == walk_; };
  for (const int id : between) {
    if (!is_behind(id)) put(id);
  }
  put(b);
  for (const int id : between) {
    if (id != b && is_behind(id)) put(id);
  }
}

void FusionGraph::RestoreOrder() {
  if (in_order_) return;
  in_order_ = true;
  std::vector<int> missing(units_.size());
  for (size_t value = 0; value < users_.size(); ++value) {
    if (producer_[value] < 0 || !unit(producer_[value]).alive) continue;
    for (const int user : users_[value]) ++missing[static_cast<size_t>(user)];
  }
  std::vector<int> sorted;
  const auto add_if_ready = [&](int id) {
    if (missing[static_cast<size_t>(id)] == 0) sorted.push_back(id);
  };
  std::for_each(sequence_.begin(), sequence_.end(), add_if_ready);
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (!unit(sorted[i]).alive) continue;
    for (const ValueId value : ResultsOf(sorted[i])) {
      if (value == kNoValue) continue;
      for (const int user : UsersOf(value)) {
        --missing[static_cast<size_t>(user)];
        add_if_ready(user);
      }
    }
  }
  if (sorted.size() != sequence_.size()) return;  // a cycle, which Rebuild() reports
  sequence_ = std::move(sorted);
  for (size_t i = 0; i < sequence_.size(); ++i) place_[static_cast<size_t>(sequence_[i])] = static_cast<int>(i);
}

void FusionGraph::ClearMarks() {
  ++walk_;
  mark_.resize(units_.size(), 0);
}

bool FusionGraph::Mark(int id) { return std::exchange(mark_[static_cast<size_t>(id)], walk_) != walk_; }

void FusionGraph::RebaseViews(const std::vector<ValueId>& values) {
  for (const ValueId value : values) {
    const ValueId source = StripReshape(value);
    if (source == value) continue;
    const std::set<int> users = UsersOf(value);
    for (const int user : users) {
      Node& node = at(user).node;
      if (!IsPrim(node, PrimOp::kView)) continue;
      Unlink(user);
      node.arguments[ArgumentIndex(node, "x")] = Use{source};
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
    const ValueId source = StripReshape(value);
    if (!is_update || Producer(source) >= 0) continue;
    for (const int reader : Readers(source)) {
      if (!IsUpdate(reader)) needs.insert(reader);
    }
  }
  return needs;
}

}  // namespace cotan::aot
