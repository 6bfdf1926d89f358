// The names of a program's inputs and outputs and what each of them stands for,
// as torch.export tells it: the typed form of serialization::GraphSignature.
#ifndef COTAN_SERIALIZATION_GRAPH_SIGNATURE_H_
#define COTAN_SERIALIZATION_GRAPH_SIGNATURE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "serialization/metadata.pb.h"
#include "serialization/tree_spec.h"
#include "serialization/view_and_mutation_meta.h"

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
  // Set if the graph is a joint one; then it names a loss or a gradient.
  std::optional<BackwardSignature> backward_signature;
  std::vector<std::string> input_tokens;
  std::vector<std::string> output_tokens;

  // Builds the signature of a graph whose inputs are, in order, effect tokens,
  // parameters, buffers, user inputs, and whose outputs are effect tokens,
  // written-back inputs, user outputs, gradients.
  // InvalidArgument if
  //   - the names of the graph's inputs or outputs are not as many as that;
  //   - the analysis is of another number of inputs or outputs;
  //   - an input whose data is mutated is not written back, or an input is
  //     written back for another reason than its data;
  //   - a parameter is mutated in a joint graph;
  //   - the loss is no user output, or there is a loss without a backward;
  //   - a gradient is none of the graph's last outputs;
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

// What tracing knows of a graph's names.
struct TracedNames {
  std::vector<std::string> graph_inputs;   // graph names, all of them
  std::vector<std::string> graph_outputs;  // graph names, all of them
  std::vector<std::string> parameters;     // qualified names
  std::vector<std::string> buffers;        // qualified names
  int num_user_inputs = 0;
  int num_user_outputs = 0;
  std::optional<TreeSpec> in_spec;
  std::optional<TreeSpec> out_spec;
  bool trace_joint = false;
  // Index of the loss among the user outputs.
  std::optional<int> loss_index;
  // Its loss_output may be "": then loss_index tells.
  std::optional<BackwardSignature> backward_signature;
};

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_GRAPH_SIGNATURE_H_
