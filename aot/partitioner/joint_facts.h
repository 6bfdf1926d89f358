// SPDX-License-Identifier: Apache-2.0

// Facts about the values of a lowered joint graph that decide which of them a forward saves for its backward.
#ifndef COTAN_AOT_PARTITIONER_JOINT_FACTS_H_
#define COTAN_AOT_PARTITIONER_JOINT_FACTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// All vectors but `nodes` are indexed by value. The graph outlives the object and does not change.
struct JointFacts {
  const Graph* joint = nullptr;
  std::vector<const Node*> nodes;     // in order
  std::vector<const Node*> producer;  // null: an input of the graph
  std::vector<bool> dependent;        // on a tangent; the backward computes it
  // The backward reads it directly: parameters, buffers and constants that the forward does not change.
  std::vector<bool> is_state;
  std::vector<bool> is_input;  // of the forward
  // An output of the forward depends on it. Other values are first computed in the backward, unless they are saved.
  std::vector<bool> in_forward;
  std::vector<bool> is_output;  // of the forward
  std::vector<bool> is_read;    // by the backward, which does not compute it by itself
  // The backward writes to the tensor that the forward got, or reads its content at that time (without_version_check).
  std::vector<bool> must_save;
  std::vector<bool> without_version_check;  // saved last

  static size_t At(ValueId id) { return static_cast<size_t>(id); }
  const TensorType& TypeOf(ValueId id) const { return joint->value(id).type; }
  // Returns whether the backward computes a result of the node from tangents.
  bool RunsBackward(const Node& node) const;
  // Returns whether an output of the forward depends on a result of the node.
  bool RunsForward(const Node& node) const;
};

// Returns true for the token of the effects in the backward.
inline bool IsBackwardToken(const GraphInput& input) { return input.kind == InputKind::kToken && input.index == 1; }
inline bool IsBackwardToken(const GraphOutput& output) {
  return output.kind == OutputKind::kToken && output.index == 1;
}

// Returns true if the output is the new content of a graph input.
bool IsOfInput(OutputKind kind);

// Returns true if the output of a joint graph belongs to the forward.
bool IsOfForward(const GraphOutput& output);

// Returns the bytes of a tensor; dynamic dimensions have their estimated size (size_estimate.h), at least 1.
int64_t EstimatedBytes(const TensorType& type);

// Returns the facts of `joint`. InvalidArgument: the graph has no tangents.
absl::StatusOr<JointFacts> JointFactsOf(const Graph& joint);

}  // namespace cotan::aot

#endif  // COTAN_AOT_PARTITIONER_JOINT_FACTS_H_
