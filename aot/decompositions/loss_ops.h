// SPDX-License-Identifier: Apache-2.0

// Rewrites of losses over classes and label sequences in terms of pointwise ops and gathers; see
// rewrites.h.
#ifndef COTAN_AOT_DECOMPOSITIONS_LOSS_OPS_H_
#define COTAN_AOT_DECOMPOSITIONS_LOSS_OPS_H_

namespace torch {
class Library;
}

namespace cotan::aot {

// Adds the rewrites of ctc_loss, multi_margin_loss and multilabel_margin_loss to a library for kRewriteKey.
void AddLossRewrites(torch::Library& library);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DECOMPOSITIONS_LOSS_OPS_H_
