// SPDX-License-Identifier: Apache-2.0

// Rewrites of recurrent layers in terms of matrix products and, for each layer and direction, one op over
// all time steps (recurrent_layer.h); see rewrites.h.
#ifndef COTAN_AOT_DECOMPOSITIONS_RECURRENT_OPS_H_
#define COTAN_AOT_DECOMPOSITIONS_RECURRENT_OPS_H_

namespace torch {
class Library;
}

namespace cotan::aot {

// Adds the rewrites of lstm, gru, rnn_tanh and rnn_relu on padded sequences to a library for kRewriteKey.
// One product with the input weights covers all steps. Packed sequences are reported as unsupported. Of
// cells (lstm_cell, ...), only unsafe_split of their gates is rewritten.
void AddRecurrentRewrites(torch::Library& library);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DECOMPOSITIONS_RECURRENT_OPS_H_
