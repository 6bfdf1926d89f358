// SPDX-License-Identifier: Apache-2.0

// The graph during fusion: nodes are units, whose programs are merged and reshaped.
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

// Programs over fewer elements than this count as free.
inline constexpr int64_t kSmallDomain = 4096;

// A node of the graph during fusion (a unit).
struct FusionNode {
  Node node;
  std::optional<FusedExpr> expr;  // set exactly for cotan.expr
  int order = 0;                  // index in the graph; the smallest of all nodes merged into it
  bool alive = true;
};

// Moves the nodes out of a graph, which keeps its values, inputs and outputs, until Rebuild() moves
// them back. Units are named by their index; the index of an erased unit is not reused. Not
// thread-safe.
class FusionGraph {
 public:
  // `graph` outlives the object.
  explicit FusionGraph(Graph& graph);

  Graph& graph() { return graph_; }
  int num_units() const { return static_cast<int>(units_.size()); }
  const FusionNode& unit(int id) const { return units_[static_cast<size_t>(id)]; }
  const TensorType& TypeOf(ValueId value) const { return graph_.value(value).type; }
  bool has_convolutions() const { return has_convolutions_; }
  // Returns true if the value is an output of the graph.
  bool IsOutput(ValueId value) const { return is_output_.contains(value); }

  // Units ---------------------------------------------------------------------

  // Adds a unit whose results are values of the graph, and returns its index.
  int AddUnit(Node node);
  // Erases a unit. Its results must be unused.
  void Erase(int id);
  std::vector<ValueId> OperandsOf(int id) const;
  const std::vector<ValueId>& ResultsOf(int id) const;
  // Returns true if the unit is alive and has a program; false for -1.
  bool IsExpr(int id) const;
  const FusedExpr& ExprOf(int id) const { return *unit(id).expr; }
  // Replaces the unit's program by `fused`.
  void SetExpr(int id, FusedExpr fused);
  // Merges unit `a` into `b`, whose program becomes `merged`.
  void MergeInto(int a, int b, FusedExpr merged);
  std::vector<TensorType> TypesOf(const std::vector<ValueId>& values) const;

  // Returns true if a program over values of the graph is well formed and matches the types of its
  // outputs.
  bool Verifies(const FusedExpr& fused) const;

  // Uses ----------------------------------------------------------------------

  // Returns the unit that computes a value; -1 for an input of the graph.
  int Producer(ValueId value) const;
  const std::set<int>& UsersOf(ValueId value);
  bool IsView(int id) const;
  // Returns the operand of the reshape that makes `value`; `value` itself if no reshape makes it.
  ValueId StripReshape(ValueId value) const;
  // Returns the units that use a value directly or through views.
  std::set<int> Readers(ValueId value);
  // Returns true if the value is an output or a unit other than `a` and `b` uses it.
  bool NeededOutside(ValueId value, int a, int b);
  // Returns true if a unit other than `a`, `b` and views uses the value directly or through views.
  // Graph outputs do not count.
  bool NeededOutsideThroughViews(ValueId value, int a, int b);
  // Returns true if a unit other than `a` and `b` that computes one of the values depends on `a` or
  // `b`. Then merging `a` and `b` into a unit that reads the value would make a cycle.
  bool DependsOnEither(absl::Span<const ValueId> values, int a, int b);
  // Returns true if `id` depends on a unit of `kind` that `other` does not depend on.
  bool WaitsFor(int id, int other, absl::FunctionRef<bool(int)> kind);

  // Reshapes ------------------------------------------------------------------

  // Returns `value` viewed with other sizes: an existing value or a new view.
  ValueId ViewOf(ValueId value, const SymIntVector& sizes);
  // Returns the value that ViewOf() would return, or if it would add a view, the operand of that
  // view. Adds nothing.
  ValueId ViewSource(ValueId value, const SymIntVector& sizes) const;
  // Replaces the program of unit `id` by `reshaped`. Its results get new ids; the old ones become
  // views of them.
  void ApplyReshape(int id, const Reshaped& reshaped);

  // The whole -----------------------------------------------------------------

  // Removes units and results that reach no output of the graph.
  void DropUnused();
  // Moves the units back into the graph, in the old order where dependencies allow it. Views, which
  // are free, come as early as possible, and so do updates of states, which free their operands.
  absl::Status Rebuild();

 private:
  FusionNode& at(int id) { return units_[static_cast<size_t>(id)]; }
  void Link(int id);
  void Unlink(int id);
  // Extends the tables indexed by value so that they hold `value`.
  void MakeRoom(ValueId value);

  // Order: a unit comes after the units it depends on.

  // Inserts a new unit after the units it depends on.
  void Place(int id);
  // Restores the order after `a` was merged into `b`: moves units that depend on `b` after it.
  void PlaceMerged(int a, int b);
  // Sorts all units if one comes before a unit it depends on.
  void RestoreOrder();
  // Starts a new walk, in which no unit is marked.
  void ClearMarks();
  // Marks a unit and returns true if it was not marked in this walk.
  bool Mark(int id);
  // Starts a walk from `pending` to the units that depend on them, and marks those whose place is
  // before `end`. Stops and returns true if it reaches one of `targets`.
  bool MarkDependents(std::vector<int> pending, int end, const absl::flat_hash_set<int>& targets);
  // Makes views of `values`, which have become views, refer to the operands of these, and removes
  // views that then are identities.
  void RebaseViews(const std::vector<ValueId>& values);
  // Makes expressions that load `from` load `to`.
  void ReplaceUses(ValueId from, ValueId to);
  // Returns true if all results of the unit become new contents of states.
  bool IsUpdate(int id);
  // Returns true if the value, or a view of it, is the new content of a state.
  bool BecomesState(ValueId value);
  // Returns the units that must run before a unit. An update of states also comes after the other
  // readers of its operands, so that it can write in place.
  std::set<int> Needs(int id);

  Graph& graph_;
  std::deque<FusionNode> units_;     // references stay valid when units are added
  std::vector<int> producer_;        // by value; -1: none
  std::deque<std::set<int>> users_;  // by value
  std::vector<int> sequence_;        // all units, dead ones too, in order
  std::vector<int> place_;           // by unit: index in sequence_
  bool in_order_ = true;
  std::vector<int64_t> mark_;  // by unit: the last walk that marked it
  int64_t walk_ = 0;
  std::vector<char> seen_;  // by place; zeros between calls of WaitsFor()
  absl::flat_hash_set<ValueId> is_output_;
  absl::flat_hash_set<ValueId> new_states_;  // outputs that become states
  bool has_convolutions_ = false;
  absl::flat_hash_map<std::string, ValueId> views_;  // made by ViewOf()
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_FUSION_FUSION_GRAPH_H_
