// The names of a program's inputs and outputs and what each of them stands for,
// as in torch.export: the typed form of serialization::GraphSignature.
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

// A name of the graph, and the qualified name in the module (of user inputs:
// also a name of the graph) that belongs to it.
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

// A value type; the members are explained at the proto's fields.
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
  // Set if the graph is a joint one that names a loss or a gradient.
  std::optional<BackwardSignature> backward_signature;
  std::vector<std::string> input_tokens;
  std::vector<std::string> output_tokens;

  // Builds the signature of a traced function, which `metadata` is about.
  // InvalidArgument if
  //   - the analysis is of another number of inputs or outputs;
  //   - the tokens of `names` are not as many as those of the analysis;
  //   - an input gets new content or a new storage, and the graph returns none, or
  //     the graph returns content for an input that keeps its own, or twice;
  //   - a gradient is of an input that requires no grad, or occurs twice;
  //   - the loss is no user output;
  //   - the result fails Validate().
  static absl::StatusOr<GraphSignature> FromTracingMetadata(const TracedNames& names,
                                                            const ViewAndMutationMeta& metadata);

  // InvalidArgument, naming the field, if
  //   - a parameter, buffer or graph input has the name of another;
  //   - a target is no parameter, buffer or user input, whichever belongs
  //     there, or occurs twice in one list;
  //   - inputs_to_parameters or inputs_to_buffers is neither empty nor in the
  //     order of parameters or buffers;
  //   - the loss is no user output;
  //   - a tree has another number of leaves than there are names.
  absl::Status Validate() const;

  // As Validate(), and for trees that have no typed form. Unimplemented: a kind
  // of tree of a newer version.
  static absl::StatusOr<GraphSignature> FromProto(const serialization::GraphSignature& proto);
  serialization::GraphSignature ToProto() const;

  // Names by index of the traced function's inputs: parameters, buffers, user
  // inputs.
  std::vector<std::string> InputNames() const;

  // Many lines for people, each starting with `indent`:
  //
  //   parameters: "weight", "bias"
  //   inputs: "input" as (*, *)
  //   outputs: "loss"
  //   "add_1" becomes buffer "running_mean"
  std::string ToString(absl::string_view indent = "") const;

  friend bool operator==(const GraphSignature&, const GraphSignature&) = default;
};

// An output of a graph that belongs to an input of the traced function: its new
// content, or its gradient.
struct InputResult {
  std::string name;  // graph name
  int input = 0;     // counted over parameters, buffers, user inputs
};

// What tracing knows of a graph's names.
struct TracedNames {
  std::vector<NamedTarget> parameters;  // graph inputs and the states that they hold
  std::vector<NamedTarget> buffers;
  std::vector<std::string> user_inputs;
  std::vector<std::string> user_outputs;
  std::vector<InputResult> new_contents;
  std::vector<InputResult> gradients;
  std::vector<std::string> input_tokens;
  std::vector<std::string> output_tokens;
  // Of user inputs and outputs.
  std::optional<TreeSpec> in_spec;
  std::optional<TreeSpec> out_spec;
  // Index of the loss among the user outputs.
  std::optional<int> loss_index;
};

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_METADATA_GRAPH_SIGNATURE_H_
