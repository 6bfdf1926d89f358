#ifndef COTAN_AOT_FUSION_MATMUL_EPILOGUE_H_
#define COTAN_AOT_FUSION_MATMUL_EPILOGUE_H_

#include "absl/status/statusor.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Merges the product that makes a weight's gradient into the update of the
// states that alone uses it: `prim.matmul_epilogue(a, b, inputs...)` with the
// update's program, in which input 0 is a @ b and input i > 0 is argument i + 1.
// The gradient then never reaches memory. Done for f32 matrices of constant
// sizes and programs of sums and products (SGD), where the sum is short, so that
// memory counts, and the matrix large. Runs after FuseExpressions().
absl::StatusOr<bool> FuseMatmulEpilogues(Graph& graph);

// Longest sum, and fewest elements of the product.
inline constexpr int64_t kMaxEpilogueDepth = 256;
inline constexpr int64_t kMinEpilogueElements = 16 * 1024;

}  // namespace cotan::aot

#endif  // COTAN_AOT_FUSION_MATMUL_EPILOGUE_H_
