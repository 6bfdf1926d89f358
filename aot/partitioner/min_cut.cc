// SPDX-License-Identifier: Apache-2.0

#include "aot/partitioner/min_cut.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "aot/ir/prim_node.h"
#include "aot/partitioner/max_flow.h"

namespace cotan::aot {
namespace {

// A byte weighs more than the preferences of all values together.
constexpr int64_t kByte = int64_t{1} << 20;

class Cut {
 public:
  Cut(const JointFacts& facts, const RecomputeLimits& limits)
      : facts_(facts), limits_(limits), network_(2 * NumValues() + 2), must_(Size(), false) {}

  absl::StatusOr<SavedChoice> Solve() {
    for (const GraphInput& input : facts_.joint->inputs()) {
      if (IsEdge(input.value)) network_.AddEdge(Source(), In(input.value), FlowNetwork::kInfinite);
    }
    for (size_t i = 0; i < facts_.nodes.size(); ++i) ConnectNode(i);
    for (ValueId id = 0; id < NumValues(); ++id) {
      if (!IsEdge(id)) continue;
      network_.AddEdge(In(id), Out(id), Capacity(id));
      if (facts_.is_read[JointFacts::At(id)]) network_.AddEdge(Out(id), Sink(), FlowNetwork::kInfinite);
    }
    if (network_.Maximize(Source(), Sink()) >= FlowNetwork::kInfinite) {
      return absl::InternalError(
          absl::StrCat("@", facts_.joint->name, ": a value that must be recomputed depends on one that cannot be"));
    }
    return Choice();
  }

 private:
  ValueId NumValues() const { return facts_.joint->num_values(); }
  size_t Size() const { return static_cast<size_t>(NumValues()); }
  static int In(ValueId id) { return 2 * id; }
  static int Out(ValueId id) { return 2 * id + 1; }
  int Source() const { return 2 * NumValues(); }
  int Sink() const { return 2 * NumValues() + 1; }

  // Returns whether the backward has to be given the value. States and what it computes from tangents are available.
  bool IsEdge(ValueId id) const {
    const size_t at = JointFacts::At(id);
    return (facts_.is_input[at] || facts_.producer[at] != nullptr) && !facts_.dependent[at] && !facts_.is_state[at] &&
           !facts_.must_save[at];
  }

  void ConnectNode(size_t index) {
    const Node& node = *facts_.nodes[index];
    for (const ValueId result : node.outputs) {
      if (result == kNoValue || !IsEdge(result)) continue;
      if (!limits_.may[index]) {
        network_.AddEdge(Source(), In(result), FlowNetwork::kInfinite);
        continue;
      }
      must_[JointFacts::At(result)] = limits_.must[index];
      for (const ValueId operand : TensorOperands(node)) {
        if (operand != kNoValue && IsEdge(operand)) network_.AddEdge(Out(operand), In(result), FlowNetwork::kInfinite);
      }
    }
  }

  int64_t Capacity(ValueId id) const {
    const size_t at = JointFacts::At(id);
    if (must_[at]) return FlowNetwork::kInfinite;
    int64_t preference = 1;
    if (facts_.is_input[at]) preference = 0;
    if (facts_.producer[at] != nullptr && IsView(*facts_.producer[at])) preference = 2;
    return EstimatedBytes(facts_.TypeOf(id)) * kByte + preference;
  }

  SavedChoice Choice() const {
    const std::vector<bool> sink_side = network_.SinkSide();
    SavedChoice choice;
    choice.saved = facts_.must_save;
    choice.recomputed.assign(Size(), false);
    for (ValueId id = 0; id < NumValues(); ++id) {
      if (!IsEdge(id)) continue;
      const bool computed = sink_side[static_cast<size_t>(In(id))];
      const bool available = sink_side[static_cast<size_t>(Out(id))];
      if (computed) choice.recomputed[JointFacts::At(id)] = true;
      if (available && !computed) choice.saved[JointFacts::At(id)] = true;
    }
    for (ValueId id = 0; id < NumValues(); ++id) {
      if (choice.saved[JointFacts::At(id)]) choice.saved_bytes += EstimatedBytes(facts_.TypeOf(id));
    }
    return choice;
  }

  const JointFacts& facts_;
  const RecomputeLimits& limits_;
  FlowNetwork network_;
  std::vector<bool> must_;  // by value
};

}  // namespace

absl::StatusOr<SavedChoice> MinimumCut(const JointFacts& facts, const RecomputeLimits& limits) {
  return Cut(facts, limits).Solve();
}

}  // namespace cotan::aot
