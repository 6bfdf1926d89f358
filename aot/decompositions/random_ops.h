// SPDX-License-Identifier: Apache-2.0

// Rewrites of random ops as draws (random_draws.h); see rewrites.h.
#ifndef COTAN_AOT_DECOMPOSITIONS_RANDOM_OPS_H_
#define COTAN_AOT_DECOMPOSITIONS_RANDOM_OPS_H_

#include <ATen/core/Tensor.h>

namespace torch {
class Library;
}

namespace cotan::aot {

// Returns input * mask / (1 - p), where the mask is 0 with probability p, else 1.
at::Tensor Dropout(const at::Tensor& input, double p);

// Adds the rewrites of aten's random ops to a library for kRewriteKey.
void AddRandomRewrites(torch::Library& library);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DECOMPOSITIONS_RANDOM_OPS_H_
