// SPDX-License-Identifier: Apache-2.0

// Compares what the partition of a joint graph decides with what AOTAutograd recorded.
#ifndef COTAN_TESTING_CONFORMANCE_HARNESS_PARTITION_CHECK_H_
#define COTAN_TESTING_CONFORMANCE_HARNESS_PARTITION_CHECK_H_

#include "serialization/metadata/view_and_mutation_meta.h"
#include "serialization/schema/program.pb.h"
#include "testing/conformance/harness/difference.h"
#include "testing/conformance/harness/golden.h"

namespace cotan::conformance {

// Compares the inputs that the backward writes.
void CompareBackwardMutations(const serialization::ViewAndMutationMeta& meta, const Json& golden, Differences& d);

// Compares the saved values.
// Which values are saved is compared with Differences::ExpectOfPartition().
void CompareSaved(const ViewAndMutationMeta& meta, const Json& analysis, Differences& d);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_HARNESS_PARTITION_CHECK_H_
