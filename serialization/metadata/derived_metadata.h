// What follows from the facts about a traced function: index lists, counts and
// the places of things among the forward's returns. Computed once, so that
// nobody filters lists at run time.
#ifndef COTAN_SERIALIZATION_METADATA_DERIVED_METADATA_H_
#define COTAN_SERIALIZATION_METADATA_DERIVED_METADATA_H_

#include <string>
#include <vector>

#include "serialization/metadata/saved_for_backward.h"
#include "serialization/metadata/view_and_mutation_facts.h"

namespace cotan {

// One value that the forward returns to autograd.
struct ForwardReturn {
  ForwardTensor tensor;
  // Autograd must not see it: the runtime only takes its geometry to give it to
  // the caller's tensor, or makes the output from its base instead. (The
  // reference wraps it in a TensorAlias.)
  bool is_tensor_alias = false;
  friend bool operator==(const ForwardReturn&, const ForwardReturn&) = default;
};

// The names are those of the reference. Index lists ascend.
struct DerivedMetadata {
  // Computes all of it. `facts` are valid, except that their tangents need not
  // be filled in.
  static DerivedMetadata Of(const ViewAndMutationMetaFields& facts);

  // Inputs that the runtime writes back (MutationType::kMutatedOutGraph).
  std::vector<int> mutated_inp_runtime_indices;
  // Inputs that the program writes itself.
  std::vector<int> mutated_graph_handled_indices;
  // Those of them whose mutation is not hidden from autograd: the runtime
  // bumps their version.
  std::vector<int> mutated_graph_handled_indices_seen_by_autograd;
  // Outputs that the runtime makes from a base.
  std::vector<int> aliased_out_indices;
  std::vector<int> unsafe_view_out_indices;

  // Counts of outputs.
  int num_outputs = 0;
  int num_outputs_non_aliased = 0;
  int num_outputs_aliased_to_inputs = 0;
  int num_outputs_aliased_to_intermediates = 0;
  int num_outputs_aliased = 0;
  // Those that are tensors: the others are no Method.outputs.
  int num_tensor_outputs = 0;

  bool dynamic_outputs = false;  // some output has a dynamic dimension
  int num_outputs_rng_offset = 0;
  // Written-back inputs, outputs and intermediate bases.
  int num_forward_returns = 0;
  // As above, and the RNG offset: where the saved values begin.
  int num_forward = 0;

  // Length = num_forward_returns.
  std::vector<ForwardReturn> forward_returns;
  // Whose gradients enter the backward, in the order of the tangents.
  std::vector<ForwardTensor> tangent_sources;
  // Length = number of tangents: wrapper type, "" for a plain tensor.
  std::vector<std::string> tangent_types;

  // Places among the forward's returns; all empty at num_forward if nothing is
  // recorded as saved.
  IndexRange tensors_saved_for_backwards;
  IndexRange tensors_saved_for_backwards_with_vc_check;
  IndexRange tensors_saved_for_backwards_no_vc_check;
  IndexRange opaque_objects_saved_for_backwards;
  IndexRange symints_saved_for_backwards;

  // Inputs changed by the backward though they require grad: an error if the
  // backward is to be differentiable.
  std::vector<int> backward_mutated_inputs_requiring_grad;

  int num_mutated_inp_runtime_indices() const { return static_cast<int>(mutated_inp_runtime_indices.size()); }
  int num_mutated_graph_handled_indices() const { return static_cast<int>(mutated_graph_handled_indices.size()); }
  int num_mutated_graph_handled_indices_seen_by_autograd() const {
    return static_cast<int>(mutated_graph_handled_indices_seen_by_autograd.size());
  }
  int num_unsafe_view_outputs() const { return static_cast<int>(unsafe_view_out_indices.size()); }
  int num_tangents() const { return static_cast<int>(tangent_sources.size()); }

  friend bool operator==(const DerivedMetadata&, const DerivedMetadata&) = default;
};

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_METADATA_DERIVED_METADATA_H_
