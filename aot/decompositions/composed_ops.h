// Ops that LibTorch computes with loops or by reading data, in terms of others;
// see rewrites.h.
#ifndef COTAN_AOT_DECOMPOSITIONS_COMPOSED_OPS_H_
#define COTAN_AOT_DECOMPOSITIONS_COMPOSED_OPS_H_

namespace at {
class Tensor;
}
namespace torch {
class Library;
}

namespace cotan::aot {

// Adds the rewrites of cov, polar, block_diag, index_reduce and of in-place and
// out forms that LibTorch cannot functionalize to a library for kRewriteKey.
void AddComposedRewrites(torch::Library& library);

// Whether the elements are conjugates of those in memory, which the functional
// tensors of a trace do not tell.
bool IsConjugateView(const at::Tensor& tensor);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DECOMPOSITIONS_COMPOSED_OPS_H_
