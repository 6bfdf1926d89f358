// SPDX-License-Identifier: Apache-2.0

// A recurrent layer in one direction over all time steps: one op of the graph, with one op as its backward.
//
//   cotan::recurrent(Tensor projected, Tensor weight, Tensor h0, Tensor? c0, Tensor? bias, str cell, bool reverse)
//       -> (Tensor hidden, Tensor cell, Tensor gates)
//   cotan::recurrent_backward(Tensor grad_hidden, Tensor hidden, Tensor weight, Tensor h0, Tensor? gates,
//                             Tensor? cell, Tensor? c0, Tensor? grad_last_cell, str cell_name, bool reverse)
//       -> (Tensor grad_gates, Tensor grad_h0, Tensor grad_c0)
//
// Operands and results are those of Recurrent in serialization/schema/program.proto; operands and results that a cell
// does not have are undefined. While tracing, both ops compute the values that the runtime will compute.
#ifndef COTAN_AOT_DECOMPOSITIONS_RECURRENT_LAYER_H_
#define COTAN_AOT_DECOMPOSITIONS_RECURRENT_LAYER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace torch {
class Library;
}

namespace cotan::aot {

enum class RecurrentCell : uint8_t { kRnnTanh, kRnnRelu, kLstm, kGru };

// State of a layer between steps.
struct RecurrentState {
  at::Tensor hidden;  // [N, H]; [N, P] with a projection
  at::Tensor cell;    // [N, H]; undefined unless an LSTM
};

struct RecurrentLayer {
  RecurrentCell cell = RecurrentCell::kLstm;
  bool reverse = false;
  at::Tensor projected;  // [T, N, gates * H], T > 0: input times input weights
  at::Tensor weight;     // [gates * H, H]; [gates * H, P] with a projection
  at::Tensor bias;       // of a GRU's hidden products; undefined without one
  RecurrentState initial;
  at::Tensor projection;  // of an LSTM's hidden state, [P, H]; undefined without one
};

struct RecurrentResult {
  at::Tensor hidden;  // [T, N, H]; [T, N, P] with a projection
  RecurrentState last;
};

// Runs the layer over all steps. It is differentiable any number of times. The first derivative is the op
// cotan::recurrent_backward; second derivatives, layers with a projection and complex layers are unrolled
// step by step. Mixed dtypes are converted to one under autocast. Throws c10::Error if sizes or dtypes of
// operands do not match, or if T = 0.
RecurrentResult RunRecurrentLayer(RecurrentLayer layer);

// Defines the two ops in the library "cotan".
void DefineRecurrent(torch::Library& library);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DECOMPOSITIONS_RECURRENT_LAYER_H_
