// SPDX-License-Identifier: Apache-2.0

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

// Returns the name in golden files: "MUTATED_IN_GRAPH".
absl::string_view MutationTypeName(MutationType type);

// Compares metadata with `facts`. `mode` is "keep_false" or "keep_true": the part of `facts` that
// was recorded with this value of keep_input_mutations. Compares inputs, outputs, tangents and
// derived lists, of the caller's signature and after de-duplication and synthetic bases; the
// wrappers around the program; and saved values, which the partition decides
// (Differences::ExpectOfPartition). Arguments of view steps are compared by view_replay.h.
//
// Cotan follows PyTorch 2.15, goldens may be of 2.11: strides of tangents are those of the eager
// tensors (facts.eager), unless these overlap themselves. Facts that are replaced or not compared
// are counted in `differences`.
void CompareMetadata(const serialization::Method& method, const Json& facts, const std::string& mode,
                     Differences& differences);

// As CompareMetadata(), without facts of the joint graph and its partition. `symbols`: the values
// of dynamic sizes for the inputs of the case.
void CompareAnalysis(const serialization::Method& method, const Json& facts, const std::string& mode,
                     Differences& differences, absl::Span<const int64_t> symbols = {});

// As CompareAnalysis(), with the facts that were recorded with dynamic=True. Expressions of sizes
// are compared by their values. Sizes among the saved values count as not compared: Cotan plans the
// backward for the sizes of its forward.
void CompareDynamicMetadata(const serialization::Method& method, const Json& facts, absl::Span<const int64_t> symbols,
                            Differences& differences);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_HARNESS_METADATA_CHECK_H_
