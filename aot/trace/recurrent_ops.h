// LibTorch's recurrent layers in terms of matrix products and pointwise ops, one
// step of time after another; see rewrites.h.
#ifndef COTAN_AOT_TRACE_RECURRENT_OPS_H_
#define COTAN_AOT_TRACE_RECURRENT_OPS_H_

namespace torch {
class Library;
}

namespace cotan::aot {

// Adds the rewrites of lstm, gru, rnn_tanh and rnn_relu on padded sequences to a
// library for kRewriteKey. The products with the input are one for all steps;
// those with the hidden state are one per step.
void AddRecurrentRewrites(torch::Library& library);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TRACE_RECURRENT_OPS_H_
