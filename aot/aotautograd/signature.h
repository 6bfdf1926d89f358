// The signature of a traced graph. No LibTorch.
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

// A traced function as its caller sees it.
struct TracedCall {
  std::vector<std::string> user_inputs;
  std::vector<std::string> user_outputs;
  // Per input of the function (parameters, buffers, user inputs): the graph's input
  // that is it, or the base that it is a view of.
  std::vector<int> graph_inputs;
  // How arguments and results are nested; unset: flat tuples.
  std::optional<TreeSpec> in_spec;
  std::optional<TreeSpec> out_spec;
  // Index among the user outputs.
  std::optional<int> loss_output;
};

// Returns the signature of `graph` (traced_program.h). Graph names are those of
// the user inputs and outputs, "parameter.NAME" and "buffer.NAME" of states,
// "mutated.NAME" of new contents and "gradient.NAME" of gradients.
// InvalidArgument: as GraphSignature::FromTracingMetadata().
absl::StatusOr<GraphSignature> SignatureOf(const Graph& graph, const ViewAndMutationMeta& metadata,
                                           const TracedCall& call);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_SIGNATURE_H_
