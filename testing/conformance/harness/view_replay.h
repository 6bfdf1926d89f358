// SPDX-License-Identifier: Apache-2.0

// Compares the arguments of view steps by their result: golden files have the names of an output's
// view steps and the geometry of the output.
#ifndef COTAN_TESTING_CONFORMANCE_HARNESS_VIEW_REPLAY_H_
#define COTAN_TESTING_CONFORMANCE_HARNESS_VIEW_REPLAY_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "serialization/metadata/view_and_mutation_meta.h"
#include "testing/conformance/harness/difference.h"
#include "testing/conformance/harness/golden.h"

namespace cotan::conformance {

// Applies the view steps of output `index` to the geometry that its base has in `eager` (the object
// "eager" of a case) and compares the result with the geometry that the output has there. Notes
// outputs without such a base as not compared: bases that are intermediates and not outputs,
// metadata-mutated inputs, and conjugate or negative views. `symbols` are the values of dynamic
// sizes.
void CompareViewArguments(const ViewAndMutationMeta& meta, int index, const Json& eager,
                          absl::Span<const int64_t> symbols, Differences& differences);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_HARNESS_VIEW_REPLAY_H_
