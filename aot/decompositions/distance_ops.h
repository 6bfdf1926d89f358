// SPDX-License-Identifier: Apache-2.0

// Rewrites of pairwise distances, weight_norm and renorm in terms of norms; see rewrites.h.
#ifndef COTAN_AOT_DECOMPOSITIONS_DISTANCE_OPS_H_
#define COTAN_AOT_DECOMPOSITIONS_DISTANCE_OPS_H_

namespace torch {
class Library;
}

namespace cotan::aot {

// Adds the rewrites of _cdist_forward, _euclidean_dist, _pdist_forward, _weight_norm, renorm and renorm_ to a
// library for kRewriteKey.
void AddDistanceRewrites(torch::Library& library);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DECOMPOSITIONS_DISTANCE_OPS_H_
