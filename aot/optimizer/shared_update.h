// SPDX-License-Identifier: Apache-2.0

// The update of one parameter as a block that parameters of the same type call. Private to //aot/optimizer.
#ifndef COTAN_AOT_OPTIMIZER_SHARED_UPDATE_H_
#define COTAN_AOT_OPTIMIZER_SHARED_UPDATE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "aot/ir/call_node.h"
#include "aot/ir/graph.h"
#include "aot/optimizer/optimizer.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// Returns the name of a slot of a parameter.
std::string SlotName(absl::string_view parameter, absl::string_view slot);

// A parameter with its gradient.
struct UpdatedParameter {
  std::string name;
  ValueId value = kNoValue;
  ValueId gradient = kNoValue;
};

// The end of a graph and of its new states before an update is appended.
struct UpdateStart {
  UpdateStart(const Graph& graph, const NewStates& states)
      : num_nodes(graph.nodes().size()),
        num_inputs(graph.inputs().size()),
        num_outputs(graph.outputs().size()),
        num_states(states.size()) {}
  size_t num_nodes, num_inputs, num_outputs, num_states;
};

class SharedUpdate {
 public:
  // Replaces what was appended since `start`, the update of `parameter`, by a call. 0-d values stay, as operands.
  // Returns none, and leaves the graph as it is, if the update does not compute all of its results.
  // Errors of UpdateSharing::Add().
  static absl::StatusOr<std::optional<SharedUpdate>> Outline(const UpdateStart& start,
                                                             const UpdatedParameter& parameter, UpdateSharing& sharing,
                                                             const NewStates& states, Graph& graph);

  // Appends the update of another parameter, with slots of its own.
  void Append(const UpdatedParameter& parameter, NewStates& states, Graph& graph) const;

 private:
  // An operand of the block: a value that all calls share, or one of the parameter's own.
  struct Operand {
    enum class Kind : uint8_t { kShared, kParameter, kGradient, kSlot };
    Kind kind = Kind::kShared;
    size_t slot = 0;
    ValueId shared = kNoValue;
  };
  struct Slot {
    std::string name;
    serialization::State state;  // of the first parameter
    TensorType type;
  };
  using NodeIterator = Graph::NodeList::iterator;

  SharedUpdate() = default;
  // Describes an operand of the first parameter's update, whose slots have the `slots` values.
  Operand Describe(ValueId id, const UpdatedParameter& parameter, absl::Span<const ValueId> slots) const;
  // Returns `nodes` as a graph with one input for each operand.
  static Graph GraphOf(absl::Span<const NodeIterator> nodes, absl::Span<const ValueId> operands,
                       absl::Span<const ValueId> results, const Graph& graph);
  // Appends a call and the outputs of the parameter.
  void Call(const UpdatedParameter& parameter, absl::Span<const ValueId> slots, Graph& graph) const;

  std::vector<Operand> operands_;
  std::vector<Slot> slots_;
  std::vector<std::optional<size_t>> results_;  // by result: the slot; none: the parameter
  AddedBlock block_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_OPTIMIZER_SHARED_UPDATE_H_
