// SPDX-License-Identifier: Apache-2.0

// Checks that a method's metadata and signature fit the method and its artifact. VerifyArtifact() calls it.
#ifndef COTAN_SERIALIZATION_VERIFIER_VERIFY_METADATA_H_
#define COTAN_SERIALIZATION_VERIFIER_VERIFY_METADATA_H_

#include "absl/status/status.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Checks the metadata and the signature of `method`, a method of `artifact` with valid value and state
// indexes. Empty metadata or an empty signature counts as absent and is not checked. A method that another
// one names as its backward_method has neither.
//
// Returns InvalidArgument, with the path of the field ("metadata.output_info[1].base_index: ..."), if
//   - ViewAndMutationMeta::FromProto() or GraphSignature::FromProto() fails (Unimplemented for values of a newer
//     version);
//   - one of the signature's parameters or buffers is not a state of that role, or the number of its user inputs
//     differs from the number of the method's inputs;
//   - the metadata's inputs are not the signature's parameters, buffers and user inputs, or its outputs are not the
//     signature's user outputs;
//   - the number of Method.outputs is not the sum of written-back user inputs, tensor outputs, intermediate bases
//     and saved tensors, or num_saved is not the number of saved tensors;
//     - a dynamic dimension of an output, or its recorded geometry, does not fit the value that is returned;
//   - a buffer is mutated but the method does not update it, or the reverse;
//   - the number of the backward method's inputs is not that of saved tensors and tangents (and of bool[] inputs
//     that say which tangents are defined), or its gradient_inputs are neither absent nor one input of the program
//     for each output;
//   - no_grad_view_inputs do not ascend or are out of range;
//   - the input binding does not make the program's arguments of the inputs, or those of them that are not parameters
//     and buffers are not the method's inputs;
//   - the new geometry or storage of a mutated input is missing, or no input update fills its new storage; an input
//   that
//     becomes a leaf requires grad at entry.
absl::Status VerifyMetadata(const serialization::Artifact& artifact, const serialization::Method& method);

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_VERIFIER_VERIFY_METADATA_H_
