// SPDX-License-Identifier: Apache-2.0

// Rewrites of image sampling at computed coordinates in terms of gathers and pointwise ops; see rewrites.h.
#ifndef COTAN_AOT_DECOMPOSITIONS_SAMPLING_OPS_H_
#define COTAN_AOT_DECOMPOSITIONS_SAMPLING_OPS_H_

namespace torch {
class Library;
}

namespace cotan::aot {

// Adds the rewrites of grid_sampler_2d, grid_sampler_3d, affine_grid_generator, max_unpool2d and
// max_unpool3d to a library for kRewriteKey.
void AddSamplingRewrites(torch::Library& library);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DECOMPOSITIONS_SAMPLING_OPS_H_
