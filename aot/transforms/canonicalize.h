#ifndef COTAN_AOT_TRANSFORMS_CANONICALIZE_H_
#define COTAN_AOT_TRANSFORMS_CANONICALIZE_H_

#include "absl/status/statusor.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Brings matrix products of a lowered graph into the form that costs least:
//   - the transpose of a product becomes the product of the transposes, in the
//     other order, so that weight gradients come out in the weight's layout;
//   - a vector added to the rows of a product becomes its bias;
//   - batches that were merged from two dimensions only for the product stay
//     apart, as merging permuted ones would copy.
// Only products that nothing else uses are changed. Permutations of
// permutations and views of views are merged, identities dropped.
absl::StatusOr<bool> CanonicalizeProducts(Graph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TRANSFORMS_CANONICALIZE_H_
