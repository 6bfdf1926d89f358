#include "aot/lower/fusion.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/node_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "aot/graph/verifier.h"
#include "aot/lower/expr_merge.h"
#include "aot/passes/dead_code.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

using serialization::ExprInstruction;

// A dynamic dimension counts as this many elements in estimates.
constexpr int64_t kAssumedDynamicSize = 64;
// Programs over fewer elements cost little, however often they run; merging
// them only ties their consumers together.
constexpr int64_t kSmallDomain = 4096;
// Longest chain of functions that is computed again instead of stored.
constexpr size_t kMaxRepeated = 12;

int64_t Count(const SymIntVector& sizes) {
  int64_t count = 1;
  for (const SymInt& size : sizes) count *= size.is_constant() ? size.constant() : kAssumedDynamicSize;
  return count;
}

int64_t Bytes(const TensorType& type) { return Count(type.sizes) * static_cast<int64_t>(ByteSize(type.dtype)); }

// Functions that cost no more than loading their operands.
bool IsCheap(serialization::ScalarFn fn) {
  const bool plain_unary = fn <= serialization::FN_RECIPROCAL;
  const bool test = fn >= serialization::FN_LOGICAL_NOT && fn <= serialization::FN_RELU;
  const bool binary = fn >= serialization::FN_ADD && fn <= serialization::FN_SHIFT_RIGHT && fn != serialization::FN_POW &&
                      fn != serialization::FN_REMAINDER && fn != serialization::FN_FMOD && fn != serialization::FN_ATAN2 &&
                      fn != serialization::FN_HYPOT;
  return (plain_unary && fn != serialization::FN_RANDOM_UNIFORM) || test || binary || fn == serialization::FN_SELECT;
}

// A node of the graph under fusion.
struct Unit {
  Node node;
  std::optional<FusedExpr> expr;  // set exactly for cotan.expr
  int order = 0;  // place in the graph; of the first one merged into it
  bool alive = true;
};

class Fuser {
 public:
  explicit Fuser(Graph& graph) : graph_(graph) {}

  absl::StatusOr<bool> Run() {
    for (Node& node : graph_.nodes()) {
      has_convolutions_ = has_convolutions_ || absl::StartsWith(node.op, "prim.convolution");
      AddUnit(std::move(node));
    }
    graph_.nodes().clear();
    for (const GraphOutput& output : graph_.outputs()) {
      if (output.value != kNoValue) is_output_.insert(output.value);
      const bool is_state = output.kind == OutputKind::kStateUpdate || output.kind == OutputKind::kMutatedInput;
      if (is_state) new_states_.insert(output.value);
    }
    MergeProducers();
    DropUnused();
    RepeatCheapFunctions();
    MergeProducers();
    MergeSiblings();
    DropUnused();
    COTAN_RETURN_IF_ERROR(Rebuild());
    COTAN_RETURN_IF_ERROR(EliminateDeadCode(graph_).status());
    return true;
  }

 private:
  // Bookkeeping ---------------------------------------------------------------

  int AddUnit(Node node) {
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

  std::vector<ValueId> OperandsOf(int id) const {
    return units_[static_cast<size_t>(id)].expr.has_value() ? units_[static_cast<size_t>(id)].expr->inputs : TensorOperands(units_[static_cast<size_t>(id)].node);
  }
  const std::vector<ValueId>& ResultsOf(int id) const {
    const Unit& unit = units_[static_cast<size_t>(id)];
    return unit.expr.has_value() ? unit.expr->outputs : unit.node.outputs;
  }

  void Link(int id) {
    for (const ValueId value : OperandsOf(id)) {
      if (value != kNoValue) users_[value].insert(id);
    }
    for (const ValueId value : ResultsOf(id)) {
      if (value != kNoValue) producer_[value] = id;
    }
  }

  void Unlink(int id) {
    for (const ValueId value : OperandsOf(id)) {
      if (value != kNoValue) users_[value].erase(id);
    }
  }

  void Kill(int id) {
    Unlink(id);
    units_[static_cast<size_t>(id)].alive = false;
  }

  int Producer(ValueId value) const {
    const auto it = producer_.find(value);
    return it == producer_.end() ? -1 : it->second;
  }

  const std::set<int>& UsersOf(ValueId value) { return users_[value]; }

  bool IsExpr(int id) const { return id >= 0 && units_[static_cast<size_t>(id)].alive && units_[static_cast<size_t>(id)].expr.has_value(); }
  FusedExpr& ExprOf(int id) { return *units_[static_cast<size_t>(id)].expr; }

  std::vector<TensorType> TypesOf(const std::vector<ValueId>& values) const {
    std::vector<TensorType> types;
    for (const ValueId value : values) types.push_back(graph_.value(value).type);
    return types;
  }

  // The value behind a reshape; `value` itself if it is none.
  ValueId BehindView(ValueId value) const {
    const int producer = Producer(value);
    if (producer < 0 || units_[static_cast<size_t>(producer)].node.op != "prim.view") return value;
    return std::get<Use>(units_[static_cast<size_t>(producer)].node.arguments[0]).value;
  }

  // Whether anything but the units `a` and `b` needs the value.
  bool NeededOutside(ValueId value, int a, int b) {
    if (is_output_.contains(value)) return true;
    return std::any_of(UsersOf(value).begin(), UsersOf(value).end(), [&](int user) { return user != a && user != b; });
  }

  // Units that depend on unit `a` or `b`, these excepted.
  absl::flat_hash_set<int> Descendants(int a, int b) {
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

  // Reshaping -------------------------------------------------------------------

  // `value` seen under other sizes: an existing value or a new view.
  ValueId ViewOf(ValueId value, const SymIntVector& sizes) {
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

  // What ViewOf would give, without making anything: the value, or the one the
  // new view would look at.
  ValueId ViewSource(ValueId value, const SymIntVector& sizes) const {
    if (graph_.value(value).type.sizes == sizes) return value;
    return BehindView(value);
  }

  // Unit `id` over the index space `sizes`. Its results get new ids; the old
  // ones become views of them.
  void ApplyReshape(int id, const Reshaped& reshaped) {
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
    ExprOf(id) = std::move(fused);
    Link(id);
    for (size_t k = 0; k < old_outputs.size(); ++k) {
      const ValueId now = ExprOf(id).outputs[k];
      if (now == old_outputs[k]) continue;
      const SymIntVector& sizes = graph_.value(old_outputs[k]).type.sizes;
      AddUnit({"prim.view", {Use{now}, std::vector<SymInt>(sizes.begin(), sizes.end())}, {old_outputs[k]}, "", nullptr});
    }
    RebaseViews(old_outputs);
  }

  // Views of values that have become views look at what is behind them; those
  // that then change nothing go.
  void RebaseViews(const std::vector<ValueId>& values) {
    for (const ValueId value : values) {
      const ValueId source = BehindView(value);
      if (source == value) continue;
      const std::set<int> users = UsersOf(value);
      for (const int user : users) {
        Unit& unit = units_[static_cast<size_t>(user)];
        if (unit.node.op != "prim.view") continue;
        Unlink(user);
        unit.node.arguments[0] = Use{source};
        Link(user);
        const ValueId seen = unit.node.outputs[0];
        if (graph_.value(seen).type.sizes == graph_.value(source).type.sizes) ReplaceUses(seen, source);
      }
    }
  }

  // Expressions that load `from` load `to`.
  void ReplaceUses(ValueId from, ValueId to) {
    const std::set<int> users = UsersOf(from);
    for (const int user : users) {
      if (!IsExpr(user)) continue;
      Unlink(user);
      std::vector<ValueId>& inputs = ExprOf(user).inputs;
      std::replace(inputs.begin(), inputs.end(), from, to);
      Simplify(ExprOf(user));
      Link(user);
    }
  }

  // Merging -----------------------------------------------------------------------

  // The merged program of producer `a` and consumer (or sibling) `b`, checked
  // against limits, levels and cycles; outputs that nobody else needs dropped.
  std::optional<FusedExpr> Candidate(int a, const FusedExpr& first, int b, const FusedExpr& second,
                                     absl::Span<const ValueId> second_sources) {
    std::optional<FusedExpr> merged = Merge(first, second);
    if (!merged.has_value()) return std::nullopt;
    FusedExpr kept = *merged;
    kept.outputs.clear();
    kept.stores.clear();
    for (size_t k = 0; k < merged->outputs.size(); ++k) {
      const bool of_second = k >= first.outputs.size();
      if (!of_second && !NeededOutside(merged->outputs[k], a, b)) continue;
      kept.outputs.push_back(merged->outputs[k]);
      kept.stores.push_back(merged->stores[k]);
    }
    Simplify(kept);
    if (kept.instructions.size() > kMaxFusedInstructions || kept.inputs.size() > kMaxFusedInputs) return std::nullopt;
    const absl::flat_hash_set<int> between = Descendants(a, b);
    for (const ValueId value : first.inputs) {
      if (between.contains(Producer(value))) return std::nullopt;
    }
    for (const ValueId value : second_sources) {
      if (Producer(value) != a && between.contains(Producer(value))) return std::nullopt;
    }
    return kept;
  }

  bool Verifies(const FusedExpr& fused, absl::Span<const TensorType> output_types) const {
    Node node;
    PutTogether(fused, node);
    return VerifyExpr(*node.expr, TypesOf(fused.inputs), output_types).ok();
  }

  void Commit(int a, int b, FusedExpr merged) {
    Unlink(b);
    Kill(a);
    Unit& unit = units_[static_cast<size_t>(b)];
    const Unit& from = units_[static_cast<size_t>(a)];
    if (unit.node.source.empty()) unit.node.source = from.node.source;
    unit.order = std::min(unit.order, from.order);
    unit.expr = std::move(merged);
    Link(b);
  }

  // Merging makes what consumes `a` wait for all that `b` needs. That is worth
  // it if a's work is large, if only `b` consumes it, or if `b` needs nothing
  // but what is there by then.
  bool Worthwhile(int a, int b) {
    if (Count(ExprOf(a).domain) > kSmallDomain) return true;
    const std::vector<ValueId>& results = ExprOf(a).outputs;
    if (std::none_of(results.begin(), results.end(), [&](ValueId value) { return NeededOutsideThroughViews(value, a, b); })) return true;
    const absl::flat_hash_set<int> before = Ancestors(a);
    const absl::flat_hash_set<int> needed = Ancestors(b);
    return std::all_of(needed.begin(), needed.end(), [&](int id) {
      const Unit& unit = units_[static_cast<size_t>(id)];
      return before.contains(id) || unit.expr.has_value() || unit.node.op == "prim.view";
    });
  }

  // Units that `id` depends on.
  absl::flat_hash_set<int> Ancestors(int id) const {
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

  bool NeededOutsideThroughViews(ValueId value, int a, int b) {
    if (is_output_.contains(value)) return false;  // outputs alone tie nobody
    for (const int user : UsersOf(value)) {
      if (user == a || user == b) continue;
      const Unit& unit = units_[static_cast<size_t>(user)];
      if (unit.node.op == "prim.view" && !NeededOutsideThroughViews(unit.node.outputs[0], a, b)) continue;
      return true;
    }
    return false;
  }

  // Merges producer `a` of `value` (an operand of `b`, perhaps behind a view).
  bool TryMerge(int a, int b, ValueId value) {
    if (a == b || !IsExpr(a) || !IsExpr(b)) return false;
    if (ExprOf(a).inputs.empty()) return InlineConstant(a, b, value);
    if (!Worthwhile(a, b)) return false;
    const ValueId behind = BehindView(value);
    if (behind == value || Producer(value) == a) return MergeDirect(a, b);
    // Bring the consumer to the producer's index space, or the other way round.
    const SymIntVector seen = graph_.value(value).type.sizes;
    if (ExprOf(b).domain == seen && TryReshaped(b, graph_.value(behind).type.sizes, a, b)) return true;
    return ExprOf(a).domain == graph_.value(behind).type.sizes && TryReshaped(a, seen, a, b);
  }

  bool MergeDirect(int a, int b) {
    std::optional<FusedExpr> merged = Candidate(a, ExprOf(a), b, ExprOf(b), ExprOf(b).inputs);
    if (!merged.has_value() || !Verifies(*merged, TypesOf(merged->outputs))) return false;
    Commit(a, b, *std::move(merged));
    return true;
  }

  // Reshapes unit `id` (a or b) to `sizes` and merges a into b, if that works.
  bool TryReshaped(int id, const SymIntVector& sizes, int a, int b) {
    const FusedExpr& original = ExprOf(id);
    const std::optional<Reshaped> reshaped = Reshape(original, TypesOf(original.inputs), sizes);
    if (!reshaped.has_value() || !ReshapesFreely(original, *reshaped)) return false;
    // A trial with the ids that the operands would have.
    FusedExpr trial = reshaped->fused;
    std::vector<ValueId> sources;
    for (size_t k = 0; k < trial.inputs.size(); ++k) {
      trial.inputs[k] = ViewSource(trial.inputs[k], reshaped->input_sizes[k]);
      sources.push_back(trial.inputs[k]);
    }
    const FusedExpr first = id == a ? trial : ExprOf(a);
    FusedExpr second = id == b ? trial : ExprOf(b);
    if (id == a) {  // b reads views that the reshaped results make superfluous
      for (ValueId& input : second.inputs) {
        const auto it = std::find(first.outputs.begin(), first.outputs.end(), BehindView(input));
        if (it == first.outputs.end()) continue;
        if (graph_.value(input).type.sizes == reshaped->output_sizes[static_cast<size_t>(it - first.outputs.begin())]) input = *it;
      }
      sources = second.inputs;
    }
    if (!Candidate(a, first, b, second, sources).has_value()) return false;
    ApplyReshape(id, *reshaped);
    if (MergeDirect(a, b)) return true;
    return false;
  }

  // Whether the operands can be seen under the new sizes without a copy: they
  // are dense, that is, no views that cut or permute.
  bool ReshapesFreely(const FusedExpr& original, const Reshaped& reshaped) const {
    for (size_t k = 0; k < original.inputs.size(); ++k) {
      const ValueId value = original.inputs[k];
      if (graph_.value(value).type.sizes == reshaped.input_sizes[k]) continue;
      const int producer = Producer(BehindView(value));
      if (producer < 0) continue;
      const std::string& op = units_[static_cast<size_t>(producer)].node.op;
      // In convolution nets images do not lie in row-major order.
      const bool is_image = has_convolutions_ && graph_.value(value).type.sizes.size() > 3;
      const bool is_expr = units_[static_cast<size_t>(producer)].expr.has_value();
      const bool dense = (is_expr && !is_image) || op == "prim.matmul" || op == "prim.gather" ||
                         op == "prim.scatter_add" || op == "prim.concat" || op == "prim.convolution_backward_weight";
      const bool only_ones = Count(graph_.value(value).type.sizes) == 1 || DropsOnlyOnes(graph_.value(value).type.sizes, reshaped.input_sizes[k]);
      if (!dense && !only_ones) return false;
    }
    return true;
  }

  static bool DropsOnlyOnes(const SymIntVector& a, const SymIntVector& b) {
    SymIntVector x, y;
    for (const SymInt& size : a) {
      if (!(size == SymInt(1))) x.push_back(size);
    }
    for (const SymInt& size : b) {
      if (!(size == SymInt(1))) y.push_back(size);
    }
    return x == y;
  }

  // A fill or range is computed by each consumer; it does not tie them.
  bool InlineConstant(int a, int b, ValueId value) {
    const FusedExpr constant = ExprOf(a);
    if (constant.outputs.size() != 1 || constant.instructions.size() > kMaxRepeated) return false;
    const bool uniform = std::all_of(constant.instructions.begin(), constant.instructions.end(), [](const ExprInstruction& instruction) {
      return instruction.fn() != serialization::FN_IOTA;
    });
    FusedExpr first = constant;
    first.outputs = {value};
    if (uniform) {
      first.domain = ExprOf(b).domain;
    } else if (Producer(value) != a || !(first.domain == ExprOf(b).domain)) {
      return false;
    }
    std::optional<FusedExpr> merged = Merge(first, ExprOf(b));
    if (!merged.has_value()) return false;
    merged->outputs.erase(merged->outputs.begin());
    merged->stores.erase(merged->stores.begin());
    Simplify(*merged);
    if (!Verifies(*merged, TypesOf(merged->outputs))) return false;
    Unlink(b);
    ExprOf(b) = *std::move(merged);
    Link(b);
    return true;
  }

  void MergeProducers() {
    for (size_t id = 0; id < units_.size(); ++id) {
      const int b = static_cast<int>(id);
      bool progress = true;
      while (progress && IsExpr(b)) {
        progress = false;
        const std::vector<ValueId> operands = ExprOf(b).inputs;
        for (const ValueId value : operands) {
          const int direct = Producer(value);
          const int a = IsExpr(direct) ? direct : Producer(BehindView(value));
          if (!TryMerge(a, b, value)) continue;
          progress = true;
          break;
        }
      }
    }
  }

  // Repeating ------------------------------------------------------------------------

  void RepeatCheapFunctions() {
    for (size_t id = 0; id < units_.size(); ++id) {
      const int a = static_cast<int>(id);
      if (!IsExpr(a)) continue;
      const std::vector<ValueId> results = ExprOf(a).outputs;
      for (const ValueId value : results) Repeat(a, value);
    }
  }

  // Computes `value`, made by `a`, in each of its consumers instead of storing
  // it, if they all can and load no more than before.
  void Repeat(int a, ValueId value) {
    if (is_output_.contains(value)) return;
    const std::set<int> users = UsersOf(value);
    if (users.empty()) return;
    const FusedExpr& source = ExprOf(a);
    const bool all_fit = std::all_of(users.begin(), users.end(), [&](int user) {
      return IsExpr(user) && ExprOf(user).domain == source.domain && ExprOf(user).instructions.size() + kMaxRepeated < kMaxFusedInstructions;
    });
    if (!all_fit || !(graph_.value(value).type.sizes == source.domain)) return;
    std::optional<Slice> slice = SliceOf(a, value);
    if (!slice.has_value()) return;
    int64_t extra = slice->new_bytes;
    for (const int user : users) {
      for (const ValueId input : slice->fused.inputs) {
        const std::vector<ValueId>& has = ExprOf(user).inputs;
        if (input < 0) continue;  // counted in new_bytes
        if (8 * Count(graph_.value(input).type.sizes) <= Count(source.domain)) continue;
        if (std::find(has.begin(), has.end(), input) == has.end()) extra += Bytes(graph_.value(input).type);
      }
    }
    const int64_t saved = Bytes(graph_.value(value).type) * static_cast<int64_t>(users.size() + 1);
    if (extra > saved) return;
    ApplyRepeat(a, value, *slice, users);
  }

  // A program for one value of a unit, from the unit's inputs and from values
  // that the unit stores, or has to store for it.
  struct Slice {
    FusedExpr fused;
    std::vector<std::pair<uint32_t, ValueId>> new_stores;  // instruction, kNoValue
    int64_t new_bytes = 0;
  };

  // A new_stores value gets an id only when the slice is applied; until then its
  // input is named by a negative number.
  static ValueId Placeholder(size_t k) { return -2 - static_cast<ValueId>(k); }

  std::optional<Slice> SliceOf(int a, ValueId value) {
    const FusedExpr& source = ExprOf(a);
    const std::vector<bool> full = FullLevels(source, TypesOf(source.inputs));
    const size_t k = static_cast<size_t>(std::find(source.outputs.begin(), source.outputs.end(), value) - source.outputs.begin());
    Slice slice;
    slice.fused.domain = source.domain;
    slice.fused.outputs = {value};
    absl::flat_hash_map<uint32_t, uint32_t> copied;
    const std::optional<uint32_t> position = Copy(source, full, source.stores[k], value, copied, slice);
    if (!position.has_value() || slice.fused.instructions.size() > kMaxRepeated) return std::nullopt;
    slice.fused.stores = {*position};
    // A slice that is a single load of a stored value repeats nothing.
    if (slice.fused.instructions[*position].fn() == serialization::FN_INPUT) return std::nullopt;
    return slice;
  }

  // Copies an instruction and what it needs; the new position.
  std::optional<uint32_t> Copy(const FusedExpr& source, const std::vector<bool>& full, uint32_t i, ValueId target,
                               absl::flat_hash_map<uint32_t, uint32_t>& copied, Slice& slice) {
    if (const auto it = copied.find(i); it != copied.end()) return it->second;
    ExprInstruction instruction = source.instructions[i];
    const bool is_leaf = instruction.operands_size() == 0;
    const bool small = !full[i] && !is_leaf;
    const bool dear = !IsCheap(instruction.fn());
    const bool narrow = full[i] && instruction.dtype() == serialization::DTYPE_BOOL && dear;
    std::optional<uint32_t> position;
    const bool at_hand = full[i] && IsStored(source, i, target);
    if ((small || dear || narrow || at_hand || DependsOnDraw(source, i)) && !is_leaf) {
      position = LoadStored(source, full, i, target, slice);
      if (!position.has_value()) return std::nullopt;
    } else if (instruction.fn() == serialization::FN_RANDOM_UNIFORM) {
      return std::nullopt;
    } else {
      if (instruction.fn() == serialization::FN_INPUT) instruction.set_index(InputIndex(source.inputs[instruction.index()], slice.fused));
      for (int k = 0; k < instruction.operands_size(); ++k) {
        const std::optional<uint32_t> operand = Copy(source, full, instruction.operands(k), target, copied, slice);
        if (!operand.has_value()) return std::nullopt;
        instruction.set_operands(k, *operand);
      }
      position = static_cast<uint32_t>(slice.fused.instructions.size());
      slice.fused.instructions.push_back(std::move(instruction));
    }
    copied[i] = *position;
    return position;
  }

  static bool IsStored(const FusedExpr& source, uint32_t i, ValueId target) {
    for (size_t k = 0; k < source.stores.size(); ++k) {
      if (source.stores[k] == i && source.outputs[k] != target) return true;
    }
    return false;
  }

  // A comparison of a draw is where a chain is best cut: a byte per element.
  static bool DependsOnDraw(const FusedExpr& source, uint32_t i) {
    const ExprInstruction& instruction = source.instructions[i];
    if (instruction.dtype() != serialization::DTYPE_BOOL) return false;
    return std::any_of(instruction.operands().begin(), instruction.operands().end(), [&](uint32_t operand) {
      return source.instructions[operand].fn() == serialization::FN_RANDOM_UNIFORM;
    });
  }

  static uint32_t InputIndex(ValueId value, FusedExpr& fused) {
    const auto it = std::find(fused.inputs.begin(), fused.inputs.end(), value);
    const auto index = static_cast<uint32_t>(it - fused.inputs.begin());
    if (it == fused.inputs.end()) fused.inputs.push_back(value);
    return index;
  }

  // A load of instruction `i`'s result: stored already, or to be stored if that
  // is small (reduced, or a byte per element).
  std::optional<uint32_t> LoadStored(const FusedExpr& source, const std::vector<bool>& full, uint32_t i, ValueId target, Slice& slice) {
    ValueId stored = kNoValue;
    for (size_t k = 0; k < source.stores.size(); ++k) {
      if (source.stores[k] == i && source.outputs[k] != target) stored = source.outputs[k];
    }
    if (stored == kNoValue) {
      if (full[i] && source.instructions[i].dtype() != serialization::DTYPE_BOOL) return std::nullopt;
      stored = Placeholder(slice.new_stores.size());
      slice.new_stores.emplace_back(i, kNoValue);
      slice.new_bytes += full[i] ? 2 * Count(source.domain) : 0;
    }
    ExprInstruction load;
    load.set_fn(serialization::FN_INPUT);
    load.set_dtype(source.instructions[i].dtype());
    load.set_index(InputIndex(stored, slice.fused));
    slice.fused.instructions.push_back(std::move(load));
    return static_cast<uint32_t>(slice.fused.instructions.size() - 1);
  }

  void ApplyRepeat(int a, ValueId value, Slice& slice, const std::set<int>& users) {
    FusedExpr source = ExprOf(a);
    const std::vector<bool> full = FullLevels(source, TypesOf(source.inputs));
    const SymIntVector reduced = ReducedSizes(source.domain, source.reduce_dims);
    for (size_t k = 0; k < slice.new_stores.size(); ++k) {
      const uint32_t i = slice.new_stores[k].first;
      const auto dtype = static_cast<DType>(source.instructions[i].dtype());
      const ValueId id = graph_.AddValue({dtype, full[i] ? source.domain : reduced, {}});
      std::replace(slice.fused.inputs.begin(), slice.fused.inputs.end(), Placeholder(k), id);
      source.outputs.push_back(id);
      source.stores.push_back(i);
    }
    std::vector<std::pair<int, FusedExpr>> repeated;
    for (const int user : users) {
      std::optional<FusedExpr> merged = Merge(slice.fused, ExprOf(user));
      if (!merged.has_value()) return;
      merged->outputs.erase(merged->outputs.begin());
      merged->stores.erase(merged->stores.begin());
      Simplify(*merged);
      const bool fits = merged->inputs.size() <= kMaxFusedInputs && merged->instructions.size() <= kMaxFusedInstructions;
      if (!fits || !Verifies(*merged, TypesOf(merged->outputs))) return;
      repeated.emplace_back(user, *std::move(merged));
    }
    const size_t k = static_cast<size_t>(std::find(source.outputs.begin(), source.outputs.end(), value) - source.outputs.begin());
    source.outputs.erase(source.outputs.begin() + static_cast<int64_t>(k));
    source.stores.erase(source.stores.begin() + static_cast<int64_t>(k));
    Simplify(source);
    Unlink(a);
    ExprOf(a) = std::move(source);
    Link(a);
    for (auto& [user, fused] : repeated) {
      Unlink(user);
      ExprOf(user) = std::move(fused);
      Link(user);
    }
  }

  // Siblings ------------------------------------------------------------------------

  void MergeSiblings() {
    std::map<ValueId, std::vector<int>> loaders;
    for (size_t id = 0; id < units_.size(); ++id) {
      if (!IsExpr(static_cast<int>(id)) || Count(ExprOf(static_cast<int>(id)).domain) <= kSmallDomain) continue;
      for (const ValueId value : ExprOf(static_cast<int>(id)).inputs) {
        if (Count(graph_.value(value).type.sizes) > kSmallDomain) loaders[value].push_back(static_cast<int>(id));
      }
    }
    MergeScalars();
    for (const auto& [value, units] : loaders) {
      for (size_t i = 0; i < units.size(); ++i) {
        for (size_t j = i + 1; j < units.size(); ++j) {
          if (!IsExpr(units[i]) || !IsExpr(units[j])) continue;
          MergeDirect(units[i], units[j]);
        }
      }
    }
  }

  // Numbers computed from inputs of the graph alone (schedules, corrections) are
  // made by one program.
  void MergeScalars() {
    int into = -1;
    for (size_t i = 0; i < units_.size(); ++i) {
      const int id = static_cast<int>(i);
      if (!IsExpr(id) || !ExprOf(id).domain.empty()) continue;
      const std::vector<ValueId>& inputs = ExprOf(id).inputs;
      if (std::any_of(inputs.begin(), inputs.end(), [&](ValueId value) { return Producer(value) >= 0; })) continue;
      if (into >= 0 && !MergeDirect(into, id)) continue;
      into = id;
    }
  }

  // Removes units and results that reach no output of the graph.
  void DropUnused() {
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
      if (!units_[i].alive) continue;
      if (!visited.contains(id)) {
        Kill(id);
        continue;
      }
      if (!IsExpr(id)) continue;
      Unlink(id);
      FusedExpr& fused = ExprOf(id);
      for (size_t k = fused.outputs.size(); k-- > 0;) {
        if (live.contains(fused.outputs[k])) continue;
        fused.outputs.erase(fused.outputs.begin() + static_cast<int64_t>(k));
        fused.stores.erase(fused.stores.begin() + static_cast<int64_t>(k));
      }
      Simplify(fused);
      Link(id);
    }
  }

  // Order -----------------------------------------------------------------------------

  // Whether all that the unit does is to make new contents of states.
  bool IsUpdate(int id) {
    return IsExpr(id) && std::all_of(ResultsOf(id).begin(), ResultsOf(id).end(), [&](ValueId value) { return Readers(value).empty() && BecomesState(value); });
  }

  // The value, or a view of it, is the new content of a state.
  bool BecomesState(ValueId value) {
    if (new_states_.contains(value)) return true;
    return std::any_of(UsersOf(value).begin(), UsersOf(value).end(), [&](int user) {
      return IsView(user) && BecomesState(units_[static_cast<size_t>(user)].node.outputs[0]);
    });
  }

  // Units that use a value, views looked through.
  std::set<int> Readers(ValueId value) {
    std::set<int> readers;
    for (const int user : UsersOf(value)) {
      if (!IsView(user)) {
        readers.insert(user);
        continue;
      }
      const std::set<int> behind = Readers(units_[static_cast<size_t>(user)].node.outputs[0]);
      readers.insert(behind.begin(), behind.end());
    }
    return readers;
  }

  bool IsView(int id) const {
    static const auto* const kViews = new absl::flat_hash_set<std::string>(
        {"prim.view", "prim.permute", "prim.expand", "prim.slice", "prim.select", "prim.as_strided", "prim.diagonal", "prim.unfold"});
    return kViews->contains(units_[static_cast<size_t>(id)].node.op);
  }

  // What must run before a unit. An update of states also waits for the other
  // readers of what it reads, so that it may write in place.
  std::set<int> Needs(int id) {
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

  // Puts the units back in the old order where dependencies allow it. Views,
  // which cost nothing, come as soon as they can, and so do updates of states,
  // which free what they read.
  absl::Status Rebuild() {
    std::map<int, std::vector<int>> waiting;  // per unit: those that wait for it
    std::vector<int> missing(units_.size(), 0);
    std::set<std::pair<int, int>> ready;  // (rank, unit)
    std::vector<std::pair<int, int>> ranks(units_.size());
    size_t alive = 0;
    for (size_t i = 0; i < units_.size(); ++i) {
      if (!units_[i].alive) continue;
      ++alive;
      const int id = static_cast<int>(i);
      const std::set<int> needs = Needs(id);
      const bool is_small = IsExpr(id) && Count(ExprOf(id).domain) <= kSmallDomain;
      const bool at_once = IsView(id) || IsUpdate(id) || (needs.empty() && is_small);
      ranks[i] = {at_once ? 0 : units_[i].order, id};
      missing[i] = static_cast<int>(needs.size());
      for (const int need : needs) waiting[need].push_back(id);
      if (needs.empty()) ready.insert(ranks[i]);
    }
    size_t placed = 0;
    while (!ready.empty()) {
      const int id = ready.begin()->second;
      ready.erase(ready.begin());
      Unit& unit = units_[static_cast<size_t>(id)];
      if (unit.expr.has_value()) PutTogether(*unit.expr, unit.node);
      graph_.nodes().push_back(std::move(unit.node));
      ++placed;
      for (const int next : waiting[id]) {
        if (--missing[static_cast<size_t>(next)] == 0) ready.insert(ranks[static_cast<size_t>(next)]);
      }
    }
    return placed == alive ? absl::OkStatus() : absl::InternalError("fusion made a cycle");
  }

  Graph& graph_;
  std::vector<Unit> units_;
  absl::flat_hash_map<ValueId, int> producer_;
  absl::node_hash_map<ValueId, std::set<int>> users_;
  absl::flat_hash_set<ValueId> is_output_;
  absl::flat_hash_set<ValueId> new_states_;  // outputs that become states
  bool has_convolutions_ = false;
  absl::flat_hash_map<std::string, ValueId> views_;
};

}  // namespace

absl::StatusOr<bool> FuseExpressions(Graph& graph) { return Fuser(graph).Run(); }

}  // namespace cotan::aot
