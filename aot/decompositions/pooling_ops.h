// SPDX-License-Identifier: Apache-2.0

// Rewrites of fractional max pooling in terms of gathers; see rewrites.h.
#ifndef COTAN_AOT_DECOMPOSITIONS_POOLING_OPS_H_
#define COTAN_AOT_DECOMPOSITIONS_POOLING_OPS_H_

namespace torch {
class Library;
}

namespace cotan::aot {

// Adds the rewrites of fractional_max_pool2d and fractional_max_pool3d to a library for kRewriteKey.
void AddPoolingRewrites(torch::Library& library);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DECOMPOSITIONS_POOLING_OPS_H_
