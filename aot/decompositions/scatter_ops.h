// SPDX-License-Identifier: Apache-2.0

// Rewrites of scatters that reduce or depend on a mask, of one_hot, histc and segment_reduce; see rewrites.h.
#ifndef COTAN_AOT_DECOMPOSITIONS_SCATTER_OPS_H_
#define COTAN_AOT_DECOMPOSITIONS_SCATTER_OPS_H_

namespace torch {
class Library;
}

namespace cotan::aot {

// Adds the rewrites of scatter_reduce, scatter_reduce_, masked_scatter, masked_scatter_, one_hot, histc and
// segment_reduce to a library for kRewriteKey.
void AddScatterRewrites(torch::Library& library);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DECOMPOSITIONS_SCATTER_OPS_H_
