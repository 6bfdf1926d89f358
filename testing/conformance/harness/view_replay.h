// Compares the arguments of view steps with what eager recorded: golden files
// name the views of an output, and have their result.
#ifndef COTAN_TESTING_CONFORMANCE_HARNESS_VIEW_REPLAY_H_
#define COTAN_TESTING_CONFORMANCE_HARNESS_VIEW_REPLAY_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "serialization/metadata/view_and_mutation_meta.h"
#include "testing/conformance/harness/difference.h"
#include "testing/conformance/harness/golden.h"

namespace cotan::conformance {

// Applies the view steps of output `index` to the geometry that its base has in
// `eager` (the object "eager" of a case) and compares the result with the
// geometry that the output has there. Notes as not compared what has no such
// base: an intermediate that is no output, an input that moves, or a view that
// changes how elements are read. `symbols` are the values of dynamic sizes.
void CompareViewArguments(const ViewAndMutationMeta& meta, int index, const Json& eager,
                          absl::Span<const int64_t> symbols, Differences& differences);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_HARNESS_VIEW_REPLAY_H_
