// The names of a traced program's inputs and outputs. No LibTorch.
#ifndef COTAN_AOT_METADATA_SIGNATURE_H_
#define COTAN_AOT_METADATA_SIGNATURE_H_

#include "aot/graph/graph.h"
#include "serialization/metadata.pb.h"

namespace cotan::aot {

// The signature of a traced graph (traced_program.h). `loss_output` is left
// empty.
serialization::GraphSignature SignatureOf(const Graph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_METADATA_SIGNATURE_H_
