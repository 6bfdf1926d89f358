// SPDX-License-Identifier: Apache-2.0

// Makes the signature of a traced graph (torch/_functorch/_aot_autograd/input_output_analysis.py,
// create_graph_signature). No LibTorch.
#ifndef COTAN_AOT_AOTAUTOGRAD_SIGNATURE_H_
#define COTAN_AOT_AOTAUTOGRAD_SIGNATURE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "aot/ir/graph.h"
#include "serialization/metadata/graph_signature.h"
#include "serialization/metadata/tree_spec.h"
#include "serialization/metadata/view_and_mutation_meta.h"

namespace cotan::aot {

// Names and structure of the arguments and results of a traced function.
struct CallingConvention {
  std::vector<std::string> user_inputs = {};
  std::vector<std::string> user_outputs = {};
  // For each input of the function (parameters, buffers, user inputs): index of its graph input, or
  // of the graph input of its base.
  std::vector<int> graph_inputs = {};
  // Nesting of arguments and results; unset: flat tuples.
  std::optional<TreeSpec> in_spec = {};
  std::optional<TreeSpec> out_spec = {};
  // Index of the loss among the user outputs; unset: no loss.
  std::optional<int> loss_output = {};
};

// Returns the signature of `graph` (capture/traced_program.h). Names in it: those of the user
// inputs and outputs, "parameter.NAME" and "buffer.NAME" for states, "mutated.NAME" for new
// contents and "gradient.NAME" for gradients.
// InvalidArgument: those of GraphSignature::FromTracingMetadata().
absl::StatusOr<GraphSignature> SignatureOf(const Graph& graph, const ViewAndMutationMeta& metadata,
                                           const CallingConvention& call);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_SIGNATURE_H_
