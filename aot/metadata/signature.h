// The names of a traced program's inputs and outputs. No LibTorch.
#ifndef COTAN_AOT_METADATA_SIGNATURE_H_
#define COTAN_AOT_METADATA_SIGNATURE_H_

#include <string>

#include "absl/types/span.h"
#include "aot/graph/graph.h"
#include "serialization/metadata.pb.h"
#include "serialization/view_and_mutation_facts.h"

namespace cotan::aot {

// The signature of a traced graph (traced_program.h) of a function whose user
// inputs and outputs have these names; neither need be inputs and outputs of the
// graph. `facts` are about the function. `loss_output` is left empty.
serialization::GraphSignature SignatureOf(const Graph& graph, const ViewAndMutationFacts& facts,
                                          absl::Span<const std::string> user_inputs,
                                          absl::Span<const std::string> user_outputs);

}  // namespace cotan::aot

#endif  // COTAN_AOT_METADATA_SIGNATURE_H_
