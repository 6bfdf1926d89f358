// Compares the metadata of a compiled method with what AOTAutograd recorded.
#ifndef COTAN_TESTING_CONFORMANCE_METADATA_CHECK_H_
#define COTAN_TESTING_CONFORMANCE_METADATA_CHECK_H_

#include "absl/strings/string_view.h"
#include "serialization/program.pb.h"
#include "serialization/view_and_mutation_meta.h"
#include "testing/conformance/difference.h"
#include "testing/conformance/golden.h"

namespace cotan::conformance {

// As the goldens write it: "MUTATED_IN_GRAPH".
absl::string_view MutationTypeName(MutationType type);

// `mode` is "keep_false" or "keep_true", the part of `facts` that says what
// was recorded with that value of keep_input_mutations. Compares every field
// that both sides define, of the user's signature and after de-duplication and
// synthetic bases.
//
// Cotan follows PyTorch 2.15, goldens may be of 2.11: strides of tangents are
// those of the eager tensors (facts.eager), unless these overlap themselves.
// How much the forward saves is the partitioner's business and not compared.
void CompareMetadata(const serialization::Method& method, const Json& facts, const std::string& mode,
                     Differences& differences);

// As CompareMetadata(), without what only the joint graph and its partition
// tell.
void CompareAnalysis(const serialization::Method& method, const Json& facts, const std::string& mode,
                     Differences& differences);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_METADATA_CHECK_H_
