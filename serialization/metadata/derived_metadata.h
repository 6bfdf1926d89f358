// SPDX-License-Identifier: Apache-2.0

// Index lists, counts and positions among the forward's returns that follow from the metadata of a traced
// function. Precomputed.
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
  // True if autograd must not treat it as a result: the runtime only copies its geometry to the caller's
  // tensor, or makes the output from its base instead. (The reference wraps it in a TensorAlias.)
  bool is_tensor_alias = false;
  friend bool operator==(const ForwardReturn&, const ForwardReturn&) = default;
};

// Names are those of ViewAndMutationMeta in torch/_functorch/_aot_autograd/schemas.py. Index lists ascend.
struct DerivedMetadata {
  // Computes all members from valid `facts`, whose tangents may be missing.
  static DerivedMetadata Of(const ViewAndMutationMetaFields& facts);

  // Inputs that the runtime writes back (MutationType::kMutatedOutGraph).
  std::vector<int> mutated_inp_runtime_indices;
  // Inputs that the program writes itself.
  std::vector<int> mutated_graph_handled_indices;
  // The subset whose mutation is not hidden from autograd: the runtime bumps their version.
  std::vector<int> mutated_graph_handled_indices_seen_by_autograd;
  // Outputs that the runtime makes from a base by view replay.
  std::vector<int> aliased_out_indices;
  std::vector<int> unsafe_view_out_indices;

  // Counts of outputs.
  int num_outputs = 0;
  int num_outputs_non_aliased = 0;
  int num_outputs_aliased_to_inputs = 0;
  int num_outputs_aliased_to_intermediates = 0;
  int num_outputs_aliased = 0;
  // Outputs that are tensors; the others are not among Method.outputs.
  int num_tensor_outputs = 0;

  bool dynamic_outputs = false;  // some output has a dynamic dimension
  // Written-back inputs, outputs and intermediate bases: the index of the first saved value. (The reference also has
  // num_forward, which differs by a returned RNG offset; here that is a state.)
  int num_forward_returns = 0;

  // Length = num_forward_returns.
  std::vector<ForwardReturn> forward_returns;
  // Tensors whose gradients enter the backward, in the order of the tangents.
  std::vector<ForwardTensor> tangent_sources;
  // Length = number of tangents: name of the wrapper type, "" for a plain tensor.
  std::vector<std::string> tangent_types;

  // Positions among the forward's returns; all are empty, at num_forward_returns, without recorded saved values.
  SavedSlice tensors_saved_for_backwards;
  SavedSlice tensors_saved_for_backwards_with_vc_check;
  SavedSlice tensors_saved_for_backwards_no_vc_check;

  // Inputs that require grad and that the backward mutates: an error with create_graph.
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
