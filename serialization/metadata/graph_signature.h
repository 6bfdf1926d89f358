// SPDX-License-Identifier: Apache-2.0

// Names and roles of a program's inputs and outputs, as in torch.export's ExportGraphSignature: the typed
// form of serialization::GraphSignature.
#ifndef COTAN_SERIALIZATION_METADATA_GRAPH_SIGNATURE_H_
#define COTAN_SERIALIZATION_METADATA_GRAPH_SIGNATURE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "serialization/metadata/tree_spec.h"
#include "serialization/metadata/view_and_mutation_meta.h"
#include "serialization/schema/metadata.pb.h"

namespace cotan {

// A name in the graph, and the qualified name in the module that belongs to it (for user inputs: also a
// name in the graph).
struct NamedTarget {
  std::string name;
  std::string target;
  friend bool operator==(const NamedTarget&, const NamedTarget&) = default;
};

// The backward part of a joint graph. Names are those of graph outputs.
struct BackwardSignature {
  std::vector<NamedTarget> gradients_to_parameters;
  std::vector<NamedTarget> gradients_to_user_inputs;
  std::string loss_output;  // one of the user outputs; "" = none
  friend bool operator==(const BackwardSignature&, const BackwardSignature&) = default;
};

struct TracedNames;

// Typed form of serialization::GraphSignature, whose fields document the members.
struct GraphSignature {
  std::vector<std::string> parameters;
  std::vector<std::string> buffers;
  std::vector<std::string> user_inputs;
  std::vector<std::string> user_outputs;
  std::vector<NamedTarget> inputs_to_parameters;
  std::vector<NamedTarget> inputs_to_buffers;
  std::vector<NamedTarget> buffers_to_mutate;
  std::vector<NamedTarget> parameters_to_mutate;
  std::vector<NamedTarget> user_inputs_to_mutate;
  std::optional<TreeSpec> in_spec;
  std::optional<TreeSpec> out_spec;
  // Set for a joint graph with a loss or gradients.
  std::optional<BackwardSignature> backward_signature;
  std::vector<std::string> input_tokens;
  std::vector<std::string> output_tokens;

  // Builds the signature of a traced function with the metadata `metadata`.
  // InvalidArgument if
  //   - `metadata` has another number of inputs, outputs or tokens than `names`;
  //   - an input gets new content or a new storage, but the graph returns none, or the graph returns content
  //     for an input that is not mutated, or twice for one input;
  //   - the input of a gradient does not require grad, or has two gradients;
  //   - the loss is not a user output;
  //   - the result fails Validate().
  static absl::StatusOr<GraphSignature> FromTracingMetadata(const TracedNames& names,
                                                            const ViewAndMutationMeta& metadata);

  // Returns InvalidArgument, with the name of the field, if
  //   - two parameters, buffers or graph inputs have the same name;
  //   - a target is not a parameter, buffer or user input, according to its list, or occurs twice in one list;
  //   - inputs_to_parameters or inputs_to_buffers is neither empty nor in the order of parameters or buffers;
  //   - the loss is not a user output;
  //   - the number of leaves of a tree differs from the number of names.
  absl::Status Validate() const;

  // Converts and validates. InvalidArgument: Validate() fails, or a tree is malformed. Unimplemented: a
  // kind of tree of a newer version.
  static absl::StatusOr<GraphSignature> FromProto(const serialization::GraphSignature& proto);
  serialization::GraphSignature ToProto() const;

  // Returns the names of the traced function's inputs: parameters, buffers, user inputs.
  std::vector<std::string> InputNames() const;

  // Returns a description of several lines, each starting with `indent`:
  //
  //   parameters: "weight", "bias"
  //   inputs: "input" as (*, *)
  //   outputs: "loss"
  //   "add_1" becomes buffer "running_mean"
  std::string ToString(absl::string_view indent = "") const;

  friend bool operator==(const GraphSignature&, const GraphSignature&) = default;
};

// An output of a graph that is the new content or the gradient of an input of the traced function.
struct InputResult {
  std::string name;  // graph name
  int input = 0;     // counted over parameters, buffers, user inputs
};

// Names of a traced graph, from which FromTracingMetadata() builds a signature.
struct TracedNames {
  std::vector<NamedTarget> parameters;  // graph inputs and the states that they hold
  std::vector<NamedTarget> buffers;
  std::vector<std::string> user_inputs;
  std::vector<std::string> user_outputs;
  std::vector<InputResult> new_contents;
  std::vector<InputResult> gradients;
  std::vector<std::string> input_tokens;
  std::vector<std::string> output_tokens;
  // Structure of the user inputs and outputs.
  std::optional<TreeSpec> in_spec;
  std::optional<TreeSpec> out_spec;
  // Index of the loss among the user outputs.
  std::optional<int> loss_index;
};

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_METADATA_GRAPH_SIGNATURE_H_
