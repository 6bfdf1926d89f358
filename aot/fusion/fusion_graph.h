// The graph under fusion: nodes as units whose programs are merged, reshaped
// and put back.
#ifndef COTAN_AOT_FUSION_FUSION_GRAPH_H_
#define COTAN_AOT_FUSION_FUSION_GRAPH_H_

#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "aot/fusion/expr_merge.h"
#include "aot/ir/graph.h"
#include "aot/ir/size_estimate.h"

namespace cotan::aot {

// Programs over fewer elements cost little, however often they run.
inline constexpr int64_t kSmallDomain = 4096;

// A node of the graph under fusion.
struct FusionNode {
  Node node;
  std::optional<FusedExpr> expr;  // set exactly for cotan.expr
  int order = 0;                  // place in the graph; of the first one merged into it
  bool alive = true;
};

// Takes the nodes out of a graph (which holds values, inputs and outputs all
// the while) until Rebuild() puts them back. Units are named by their index;
// a unit that is gone keeps its index. Not thread-safe.
class FusionGraph {
 public:
  // `graph` outlives the object.
  explicit FusionGraph(Graph& graph);

  Graph& graph() { return graph_; }
  int num_units() const { return static_cast<int>(units_.size()); }
  const FusionNode& unit(int id) const { return units_[static_cast<size_t>(id)]; }
  const TensorType& TypeOf(ValueId value) const { return graph_.value(value).type; }
  bool has_convolutions() const { return has_convolutions_; }
  // Whether the value is an output of the graph.
  bool IsOutput(ValueId value) const { return is_output_.contains(value); }

  // Units ---------------------------------------------------------------------

  // Adds a unit whose results are values of the graph; its index.
  int AddUnit(Node node);
  // Nothing may use its results any more.
  void Erase(int id);
  std::vector<ValueId> OperandsOf(int id) const;
  const std::vector<ValueId>& ResultsOf(int id) const;
  // Whether the unit is alive and has a program; false for -1.
  bool IsExpr(int id) const;
  const FusedExpr& ExprOf(int id) const { return *unit(id).expr; }
  // The unit's program becomes `fused`.
  void SetExpr(int id, FusedExpr fused);
  // The unit `a` is merged into `b`, whose program becomes `merged`.
  void MergeInto(int a, int b, FusedExpr merged);
  std::vector<TensorType> TypesOf(const std::vector<ValueId>& values) const;

  // Whether a program over values of the graph is well formed and fits the
  // types of its outputs.
  bool Verifies(const FusedExpr& fused) const;

  // Uses ----------------------------------------------------------------------

  // The unit that makes a value; -1 for an input of the graph.
  int Producer(ValueId value) const;
  const std::set<int>& UsersOf(ValueId value);
  bool IsView(int id) const;
  // The value behind a reshape; `value` itself if it is none.
  ValueId StripReshape(ValueId value) const;
  // Units that use a value, views looked through.
  std::set<int> Readers(ValueId value);
  // Whether anything but the units `a` and `b` needs the value.
  bool NeededOutside(ValueId value, int a, int b);
  // The same for units that do work, views looked through; being an output does
  // not count.
  bool NeededOutsideThroughViews(ValueId value, int a, int b);
  // Whether a value is made by a unit, `a` and `b` excepted, that depends on `a`
  // or `b`: then these two cannot become one that needs the value.
  bool DependsOnEither(absl::Span<const ValueId> values, int a, int b);
  // Whether `id` depends on a unit of `kind` that `other` does not depend on.
  bool WaitsFor(int id, int other, absl::FunctionRef<bool(int)> kind);

  // Reshapes ------------------------------------------------------------------

  // `value` seen under other sizes: an existing value or a new view.
  ValueId ViewOf(ValueId value, const SymIntVector& sizes);
  // What ViewOf would give, without making anything: the value, or the one the
  // new view would look at.
  ValueId ViewSource(ValueId value, const SymIntVector& sizes) const;
  // FusionNode `id` over the index space `sizes`. Its results get new ids; the old
  // ones become views of them.
  void ApplyReshape(int id, const Reshaped& reshaped);

  // The whole -----------------------------------------------------------------

  // Removes units and results that reach no output of the graph.
  void DropUnused();
  // Puts the units back in the old order where dependencies allow it. Views,
  // which cost nothing, come as soon as they can, and so do updates of states,
  // which free what they read.
  absl::Status Rebuild();

 private:
  FusionNode& at(int id) { return units_[static_cast<size_t>(id)]; }
  void Link(int id);
  void Unlink(int id);
  // Grows the tables by value to hold `value`.
  void MakeRoom(ValueId value);

  // Order: a unit comes behind those it depends on.

  // Puts a new unit behind what it depends on.
  void Place(int id);
  // After `a` was merged into `b`: what depends on `b` comes behind it.
  void PlaceMerged(int a, int b);
  // Sorts all units, if one comes before what it depends on.
  void RestoreOrder();
  // Begins a walk, in which no unit is marked.
  void ClearMarks();
  // Whether it was not marked before.
  bool Mark(int id);
  // Begins a walk from `pending` to what depends on it, and marks all that has a
  // place before `end`. True, and at an end, if it comes to one of `targets`.
  bool MarkDependents(std::vector<int> pending, int end, const absl::flat_hash_set<int>& targets);
  // Views of values that have become views look at what is behind them; those
  // that then change nothing go.
  void RebaseViews(const std::vector<ValueId>& values);
  // Expressions that load `from` load `to`.
  void ReplaceUses(ValueId from, ValueId to);
  // Whether all that the unit does is to make new contents of states.
  bool IsUpdate(int id);
  // The value, or a view of it, is the new content of a state.
  bool BecomesState(ValueId value);
  // What must run before a unit. An update of states also waits for the other
  // readers of what it reads, so that it may write in place.
  std::set<int> Needs(int id);

  Graph& graph_;
  std::deque<FusionNode> units_;     // references outlive the addition of others
  std::vector<int> producer_;        // by value; -1: none
  std::deque<std::set<int>> users_;  // by value
  std::vector<int> sequence_;        // all units, dead ones too, in order
  std::vector<int> place_;           // by unit: index in sequence_
  bool in_order_ = true;
  std::vector<int64_t> mark_;  // by unit: the walk that came by last
  int64_t walk_ = 0;
  absl::flat_hash_set<ValueId> is_output_;
  absl::flat_hash_set<ValueId> new_states_;  // outputs that become states
  bool has_convolutions_ = false;
  absl::flat_hash_map<std::string, ValueId> views_;  // made by ViewOf()
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_FUSION_FUSION_GRAPH_H_
