// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_SERIALIZATION_VERIFIER_VERIFY_HOST_VALUES_H_
#define COTAN_SERIALIZATION_VERIFIER_VERIFY_HOST_VALUES_H_

#include "absl/status/status.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Checks the values on the host (Value.on_host) of a method whose indexes have been checked. InvalidArgument: an op
// other than a copy between host and device reads or writes one; one is a state, a new content of a state or of an
// input, or a result that is not saved; one is saved twice; one is an input that is not the saved value of a forward;
// a saved value is on the host in only one of forward and backward; or a linked method has one.
absl::Status VerifyHostValues(const serialization::Artifact& artifact, const serialization::Method& method);

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_VERIFIER_VERIFY_HOST_VALUES_H_
