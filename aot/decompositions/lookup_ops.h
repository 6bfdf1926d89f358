// SPDX-License-Identifier: Apache-2.0

// Rewrites of ops that read or write at indices; see rewrites.h.
#ifndef COTAN_AOT_DECOMPOSITIONS_LOOKUP_OPS_H_
#define COTAN_AOT_DECOMPOSITIONS_LOOKUP_OPS_H_

namespace torch {
class Library;
}

namespace cotan::aot {

// Adds the rewrites of embedding_renorm, combinations, scatter with a reduction, and bincount with a minlength to a
// library for kRewriteKey.
void AddLookupRewrites(torch::Library& library);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DECOMPOSITIONS_LOOKUP_OPS_H_
