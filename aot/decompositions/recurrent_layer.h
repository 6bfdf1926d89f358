// A recurrent layer in one direction over all time steps, as one op of the
// graph with an op as its backward:
//
//   cotan::recurrent(Tensor projected, Tensor weight, Tensor h0, Tensor? c0,
//                    Tensor? bias, str cell, bool reverse)
//       -> (Tensor hidden, Tensor cell, Tensor gates)
//   cotan::recurrent_backward(Tensor grad_hidden, Tensor hidden, Tensor weight,
//                             Tensor h0, Tensor? gates, Tensor? cell,
//                             Tensor? c0, Tensor? grad_last_cell, str cell_name,
//                             bool reverse)
//       -> (Tensor grad_projected, Tensor grad_h0, Tensor last)
//
// Operands and results are those of Recurrent in serialization/schema/program.proto;
// what a cell lacks is undefined. `last` is the gradient of an LSTM's c0 or of a
// GRU's hidden products. While tracing, both compute what the runtime will.
#ifndef COTAN_AOT_DECOMPOSITIONS_RECURRENT_LAYER_H_
#define COTAN_AOT_DECOMPOSITIONS_RECURRENT_LAYER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace torch {
class Library;
}

namespace cotan::aot {

enum class RecurrentCell : uint8_t { kRnnTanh, kRnnRelu, kLstm, kGru };

// What a layer remembers from step to step; `cell` is an LSTM's alone.
struct RecurrentState {
  at::Tensor hidden;  // [N, H]
  at::Tensor cell;    // [N, H]
};

struct RecurrentLayer {
  RecurrentCell cell = RecurrentCell::kLstm;
  bool reverse = false;
  at::Tensor projected;  // [T, N, gates * H], T > 0: the input's products
  at::Tensor weight;     // [gates * H, H]
  at::Tensor bias;       // of a GRU's hidden products; undefined if there is none
  RecurrentState initial;
  at::Tensor projection;  // of an LSTM's hidden state, [P, H]; undefined without one
};

struct RecurrentResult {
  at::Tensor hidden;  // [T, N, H], or P for H
  RecurrentState last;
};

// Differentiable, as often as wanted: the derivative of a derivative goes
// through the steps one by one, and so does a layer with a projection or of
// complex numbers. Mixed dtypes are brought to one under autocast. Throws
// c10::Error for operands that do not fit each other and for T = 0.
RecurrentResult RunRecurrentLayer(RecurrentLayer layer);

// Defines the two ops in the library "cotan".
void DefineRecurrent(torch::Library& library);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DECOMPOSITIONS_RECURRENT_LAYER_H_
