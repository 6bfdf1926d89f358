// LibTorch's recurrent layers in terms of matrix products and, for each layer and
// direction, one op over all steps of time (recurrent_layer.h); see rewrites.h.
#ifndef COTAN_AOT_DECOMPOSITIONS_RECURRENT_OPS_H_
#define COTAN_AOT_DECOMPOSITIONS_RECURRENT_OPS_H_

namespace torch {
class Library;
}

namespace cotan::aot {

// Adds the rewrites of lstm, gru, rnn_tanh and rnn_relu on padded sequences to a
// library for kRewriteKey. The products with the input are one for all steps.
// Those on packed sequences are refused. Of cells (lstm_cell, ...) only how they
// cut their gates is rewritten.
void AddRecurrentRewrites(torch::Library& library);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DECOMPOSITIONS_RECURRENT_OPS_H_
