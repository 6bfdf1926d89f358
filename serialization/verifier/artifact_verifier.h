// The one check of an artifact, made when it is loaded: everything after it
// may index without looking.
#ifndef COTAN_SERIALIZATION_VERIFIER_ARTIFACT_VERIFIER_H_
#define COTAN_SERIALIZATION_VERIFIER_ARTIFACT_VERIFIER_H_

#include "absl/status/status.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// What holds after OK:
//   - Every index (value, state, segment, symbol, instruction, dimension of a
//     dim_order) is in range; every size expression parses and uses only the
//     artifact's symbols; every enum has a value that this build knows.
//   - Names of states (aliases included), methods are unique and not empty.
//   - Each value has at most one definition (input, state read or op output)
//     and is defined before it is used. States are updated at most once per
//     method, with values of their own type, constants never. So are inputs,
//     unless they get another storage.
//   - A segment has as many bytes as the tensor that uses it.
//   - Metadata and signature of a method fit it (verify_metadata.h).
//   - Methods of a forward/backward pair agree on the saved values, a backward
//     belongs to one forward only and tells the input of each gradient, or of
//     none; no input has two.
// Whether ops fit their operands depends on the values of symbols; the planner
// checks that (kernels/api/op_check.h). Whether the program computes anything
// sensible is nobody's concern here.
//
// `artifact.segments` have passed ArtifactFile's checks of ranges.
// InvalidArgument: it does not hold; the message names method, op or state.
// Unimplemented: an op, function or enum value from a newer version.
absl::Status VerifyArtifact(const serialization::Artifact& artifact);

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_VERIFIER_ARTIFACT_VERIFIER_H_
