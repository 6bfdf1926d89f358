// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_AOT_TRANSFORMS_CANONICALIZE_H_
#define COTAN_AOT_TRANSFORMS_CANONICALIZE_H_

#include "absl/status/statusor.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Rewrites matrix products of a lowered graph into a cheaper form:
//   - the transpose of a product becomes the product of the transposes, in the
//     other order, so that weight gradients come out in the weight's layout, also if
//     the product is converted to another dtype first;
//   - the conversion of a permuted operand becomes the permuted conversion, so that both sides of
//     it are read and written in the order of memory;
//   - a vector added to the rows of a product becomes its bias;
//   - two batch dimensions that were merged only for the product stay separate, because merging
//     permuted dimensions would copy.
// Changes only products with one use. Merges permutations of permutations and views of views, and
// drops identities. Returns true if the graph changed.
absl::StatusOr<bool> CanonicalizeProducts(Graph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TRANSFORMS_CANONICALIZE_H_
