// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_AOT_FUSION_MATMUL_EPILOGUE_H_
#define COTAN_AOT_FUSION_MATMUL_EPILOGUE_H_

#include "absl/status/statusor.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Merges the matrix product that computes a weight's gradient into the state update that is its
// only use: `prim.matmul_epilogue(a, b, inputs...)` with the update's program, in which input 0 is
// a @ b and input i > 0 is argument i + 1. The gradient then never reaches memory. Applies to f32
// matrices of constant sizes and programs of sums and products (SGD), if the contracted dimension
// is short and the matrix large, so that memory bandwidth dominates. Call it after
// FuseExpressions(). Returns true if the graph changed.
absl::StatusOr<bool> FuseMatmulEpilogues(Graph& graph);

// Largest contracted dimension, and fewest elements of the product.
inline constexpr int64_t kMaxEpilogueDepth = 256;
inline constexpr int64_t kMinEpilogueElements = 16 * 1024;

}  // namespace cotan::aot

#endif  // COTAN_AOT_FUSION_MATMUL_EPILOGUE_H_
