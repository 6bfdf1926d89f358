// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_SERIALIZATION_VERIFIER_VERIFY_LINKED_H_
#define COTAN_SERIALIZATION_VERIFIER_VERIFY_LINKED_H_

#include "absl/status/status.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Checks Method.linked, if it is set, against a method whose values and inputs have been checked. InvalidArgument: a
// size is neither a constant nor a symbol, a symbol does not exist or never occurs, the method does not have one place
// for each input, an index input is not i64[n], it has states.
absl::Status VerifyLinked(const serialization::Artifact& artifact, const serialization::Method& method);

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_VERIFIER_VERIFY_LINKED_H_
