// SPDX-License-Identifier: Apache-2.0

// Rewrites of ops that LibTorch computes with loops or by reading data; see rewrites.h.
#ifndef COTAN_AOT_DECOMPOSITIONS_COMPOSED_OPS_H_
#define COTAN_AOT_DECOMPOSITIONS_COMPOSED_OPS_H_

namespace at {
class Tensor;
}
namespace torch {
class Library;
}

namespace cotan::aot {

// Adds the rewrites of cov, polar, block_diag, index_reduce, conv_tbc, norm with a dtype, and of in-place and out
// variants that LibTorch cannot functionalize to a library for kRewriteKey.
void AddComposedRewrites(torch::Library& library);

// Returns whether the conj bit of the tensor is set. A functional tensor does not have it; its proxy's real
// tensor does.
bool IsConjugateView(const at::Tensor& tensor);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DECOMPOSITIONS_COMPOSED_OPS_H_
