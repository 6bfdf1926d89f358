// SPDX-License-Identifier: Apache-2.0

// Rewrites of losses over classes and label sequences in terms of pointwise ops and gathers; see
// rewrites.h.
#ifndef COTAN_AOT_DECOMPOSITIONS_LOSS_OPS_H_
#define COTAN_AOT_DECOMPOSITIONS_LOSS_OPS_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace torch {
class Library;
}

namespace cotan::aot {

// Adds the rewrites of ctc_loss, multi_margin_loss and multilabel_margin_loss to a library for kRewriteKey.
void AddLossRewrites(torch::Library& library);

// Makes class weights that a call of cross_entropy_loss captures a constant of the trace: for tensors that are not
// traced LibTorch smooths labels by ops whose sizes depend on data. Does nothing for other ops.
void CaptureClassWeights(const c10::OperatorHandle& op, torch::jit::Stack& stack);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DECOMPOSITIONS_LOSS_OPS_H_
