// SPDX-License-Identifier: Apache-2.0

// Verification of an artifact when it is loaded: later stages use its indexes without checks.
#ifndef COTAN_SERIALIZATION_VERIFIER_ARTIFACT_VERIFIER_H_
#define COTAN_SERIALIZATION_VERIFIER_ARTIFACT_VERIFIER_H_

#include "absl/status/status.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Verifies an artifact. OK guarantees:
//     - Every index (value, state, segment, symbol, instruction, dimension of a dim_order) is in range; every size
//     expression parses and uses only the artifact's symbols; every enumerator is known.
//   - Names of states, aliases included, and of methods are unique and not empty.
//   - Each value has at most one definition (input, state read or op output) and is defined before it is used.
//   - A method updates a state at most once, with a value of the state's type, and never a constant. The same
//     holds for its inputs, except for the type if an input gets another storage.
//   - A segment has as many bytes as the tensor that uses it.
//   - Metadata and signature of a method fit it (verify_metadata.h).
//   - The methods of a forward/backward pair agree on the saved values. A backward belongs to one forward only and
//     gives the input of each gradient, or of none; no input has two gradients.
// The planner checks that ops fit their operands, which depends on the values of symbols (kernels/api/op_check.h).
//
// ArtifactFile has checked the ranges of `artifact.segments`. InvalidArgument: a guarantee is violated; the
// message names method, op or state. Unimplemented: an op, function or enumerator of a newer version.
absl::Status VerifyArtifact(const serialization::Artifact& artifact);

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_VERIFIER_ARTIFACT_VERIFIER_H_
