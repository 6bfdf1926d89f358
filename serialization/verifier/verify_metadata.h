// Checks that a method's metadata and signature fit the method and the
// artifact it is in. The artifact's verifier calls this once at load; whoever
// uses metadata later may rely on it.
#ifndef COTAN_SERIALIZATION_VERIFIER_VERIFY_METADATA_H_
#define COTAN_SERIALIZATION_VERIFIER_VERIFY_METADATA_H_

#include "absl/status/status.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// `method` is one of the artifact's; its value and state indexes are valid.
// Metadata or a signature without any entry counts as absent: that part is not
// checked. A method that another one names as its backward_method has neither.
//
// InvalidArgument, naming the field ("metadata.output_info[1].base_index: ..."),
// if
//   - ViewAndMutationMeta::FromProto() or GraphSignature::FromProto() refuses
//     (Unimplemented if a newer version wrote what they do not know);
//   - the signature's parameters or buffers are no states of that role, or its
//     user inputs are not as many as the method's inputs;
//   - the metadata's inputs are not the signature's parameters, buffers and
//     user inputs, or its outputs not the signature's user outputs;
//   - Method.outputs are not as many as written-back user inputs, tensor
//     outputs, intermediate bases and saved tensors together, or num_saved is
//     not the number of saved tensors;
//   - a dynamic dimension of an output, or its recorded geometry, does not fit
//     the value that is returned;
//   - a buffer is mutated that the method does not update, or the reverse;
//   - the backward method takes another number of inputs than saved tensors
//     and tangents, or its gradient_inputs are neither absent nor one input of the
//     program for each output;
//   - no_grad_view_inputs are no ascending inputs.
absl::Status VerifyMetadata(const serialization::Artifact& artifact, const serialization::Method& method);

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_VERIFIER_VERIFY_METADATA_H_
