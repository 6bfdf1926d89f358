#ifndef COTAN_AOT_LOWER_CANONICALIZE_H_
#define COTAN_AOT_LOWER_CANONICALIZE_H_

#include "absl/status/statusor.h"
#include "aot/graph/graph.h"

namespace cotan::aot {

// The transpose of a matrix product becomes the product of the transposes, in
// the other order: (a @ b)^T = b^T @ a^T, if nothing else uses the product.
// Weight gradients then come out in the layout of the weight. Permutations of
// permutations are merged, identities dropped.
absl::StatusOr<bool> TransposeProducts(Graph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_LOWER_CANONICALIZE_H_
