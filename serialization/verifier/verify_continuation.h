// SPDX-License-Identifier: Apache-2.0

// Checks sizing methods and what they pass on (Method.continuation).
#ifndef COTAN_SERIALIZATION_VERIFIER_VERIFY_CONTINUATION_H_
#define COTAN_SERIALIZATION_VERIFIER_VERIFY_CONTINUATION_H_

#include "absl/status/status.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Checks a method that is continued by another; the inputs, outputs and values of all methods of the artifact are in
// range, and their types are valid. InvalidArgument: the method has what a sizing method may not have; the method that
// goes on does not exist, comes later in its own chain, is continued by a further method, or is a backward; or an input
// of it does not fit what it is given.
absl::Status VerifyContinuation(const serialization::Artifact& artifact, const serialization::Method& method);

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_VERIFIER_VERIFY_CONTINUATION_H_
