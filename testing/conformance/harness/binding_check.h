// SPDX-License-Identifier: Apache-2.0

// Compares the wrappers around a program with what AOTAutograd recorded.
#ifndef COTAN_TESTING_CONFORMANCE_HARNESS_BINDING_CHECK_H_
#define COTAN_TESTING_CONFORMANCE_HARNESS_BINDING_CHECK_H_

#include "serialization/schema/program.pb.h"
#include "testing/conformance/harness/difference.h"
#include "testing/conformance/harness/golden.h"

namespace cotan::conformance {

// Compares the duplicate inputs of a function with `num_inputs` inputs.
void CompareDuplicates(const serialization::InputBinding& binding, const Json& golden, int num_inputs, Differences& d);

// Compares synthetic bases and the inputs that are views of them.
void CompareSyntheticBases(const serialization::InputBinding& binding, const Json& golden, Differences& d);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_HARNESS_BINDING_CHECK_H_
