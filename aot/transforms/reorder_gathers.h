// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_AOT_TRANSFORMS_REORDER_GATHERS_H_
#define COTAN_AOT_TRANSFORMS_REORDER_GATHERS_H_

#include "absl/status/statusor.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Moves matrix products of gathered rows, such as the first layer after an embedding, to the table that the rows are
// from, where the table has at most half as many rows as are gathered. With X = gather(T, i) in a lowered graph of f32,
// f64 or bf16, which may be converted for the product:
//   - X W + b becomes gather(T W + b, i);
//   - X^T Y, the gradient of W, becomes T^T S with S = scatter_add(Y, i);
//   - scatter_add(Y W^T, i), the gradient of T, becomes S W^T, also for a sum of products;
//   - the sum over the rows of Y, the gradient of b, becomes that of S, if S exists.
// Gradients are sums in another order, which are computed in f32 and rounded once for products of bf16. A row of the
// table that is not gathered is multiplied by zero, so that an infinity or NaN in it makes the gradient of W NaN.
// Returns true if the graph changed.
absl::StatusOr<bool> ReorderGathers(Graph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TRANSFORMS_REORDER_GATHERS_H_
