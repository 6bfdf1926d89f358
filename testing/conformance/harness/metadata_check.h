// Compares the metadata of a compiled method with what AOTAutograd recorded.
#ifndef COTAN_TESTING_CONFORMANCE_HARNESS_METADATA_CHECK_H_
#define COTAN_TESTING_CONFORMANCE_HARNESS_METADATA_CHECK_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "serialization/metadata/view_and_mutation_meta.h"
#include "serialization/schema/program.pb.h"
#include "testing/conformance/harness/difference.h"
#include "testing/conformance/harness/golden.h"

namespace cotan::conformance {

// As the goldens write it: "MUTATED_IN_GRAPH".
absl::string_view MutationTypeName(MutationType type);

// `mode` is "keep_false" or "keep_true", the part of `facts` that says what
// was recorded with that value of keep_input_mutations. Compares inputs,
// outputs, tangents and what follows from them, of the user's signature and
// after de-duplication and synthetic bases; what wrappers do to arguments; what
// the forward saves. Which values that are is up to the partition
// (Differences::ExpectOfPartition). Arguments of views: see view_replay.h.
//
// Cotan follows PyTorch 2.15, goldens may be of 2.11: strides of tangents are
// those of the eager tensors (facts.eager), unless these overlap themselves.
// What is replaced so, or left out, is counted in `differences`.
void CompareMetadata(const serialization::Method& method, const Json& facts, const std::string& mode,
                     Differences& differences);

// As CompareMetadata(), without what only the joint graph and its partition
// tell. `symbols`: what dynamic sizes are for the inputs of the case.
void CompareAnalysis(const serialization::Method& method, const Json& facts, const std::string& mode,
                     Differences& differences, absl::Span<const int64_t> symbols = {});

// As CompareAnalysis(), with what was recorded with dynamic=True. Expressions of
// sizes are compared by their values. That the backward gets sizes as saved
// values counts as not compared: here it is planned for the sizes of its forward.
void CompareDynamicMetadata(const serialization::Method& method, const Json& facts, absl::Span<const int64_t> symbols,
                            Differences& differences);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_HARNESS_METADATA_CHECK_H_
