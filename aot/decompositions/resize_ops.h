// SPDX-License-Identifier: Apache-2.0

// Rewrites of antialiased image resizing in terms of matrix products; see rewrites.h.
#ifndef COTAN_AOT_DECOMPOSITIONS_RESIZE_OPS_H_
#define COTAN_AOT_DECOMPOSITIONS_RESIZE_OPS_H_

namespace torch {
class Library;
}

namespace cotan::aot {

// Adds the rewrites of _upsample_bilinear2d_aa, _upsample_bicubic2d_aa and _upsample_lanczos2d_aa to a
// library for kRewriteKey.
void AddResizeRewrites(torch::Library& library);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DECOMPOSITIONS_RESIZE_OPS_H_
