// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/recurrent_ops.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/gru.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/lstm.h>
#include <ATen/ops/rnn_relu.h>
#include <ATen/ops/rnn_tanh.h>
#include <ATen/ops/split_copy.h>
#include <ATen/ops/split_with_sizes_copy.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/unbind.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "aot/capture/dispatch_keys.h"
#include "aot/capture/recorder.h"
#include "aot/decompositions/random_ops.h"
#include "aot/decompositions/recurrent_layer.h"

namespace cotan::aot {
namespace {

using Tensors = std::vector<at::Tensor>;

// Weights of one layer in one direction.
struct CellWeights {
  at::Tensor input;        // [gates * H, I]
  at::Tensor hidden;       // [gates * H, H]
  at::Tensor input_bias;   // undefined without biases
  at::Tensor hidden_bias;  // undefined without biases
  at::Tensor projection;   // of an LSTM's output; undefined without one
};

struct Settings {
  bool has_biases;
  int64_t num_layers;
  double dropout;
  bool train;
  bool bidirectional;
  bool batch_first;
};

// Returns the weights of cell `index`; `params` are ordered by layer, then forward and backward direction.
CellWeights WeightsAt(at::TensorList params, size_t index, size_t per_cell, bool has_biases) {
  const at::TensorList w = params.slice(index * per_cell, per_cell);
  CellWeights weights;
  weights.input = w[0];
  weights.hidden = w[1];
  if (has_biases) {
    weights.input_bias = w[2];
    weights.hidden_bias = w[3];
  }
  const size_t plain = has_biases ? 4 : 2;
  if (per_cell > plain) weights.projection = w[plain];
  return weights;
}

// Returns the layer without its initial state. Cells that add both products take the sum of both biases.
RecurrentLayer LayerOf(RecurrentCell cell, const at::Tensor& input, const CellWeights& w, bool batch_first) {
  RecurrentLayer layer;
  layer.cell = cell;
  layer.weight = w.hidden;
  layer.projection = w.projection;
  at::Tensor bias = w.input_bias;
  if (cell == RecurrentCell::kGru) {
    layer.bias = w.hidden_bias;
  } else if (bias.defined()) {
    bias = bias + w.hidden_bias;
  }
  layer.projected = bias.defined() ? at::linear(input, w.input, bias) : at::linear(input, w.input);
  if (batch_first) layer.projected = layer.projected.transpose(0, 1);
  return layer;
}

// Runs all layers; `hidden` and `cell` are [layers * directions, N, H].
std::tuple<at::Tensor, at::Tensor, at::Tensor> Run(RecurrentCell kind, const at::Tensor& input,
                                                   const at::Tensor& hidden, const at::Tensor& cell,
                                                   at::TensorList params, const Settings& s) {
  const size_t directions = s.bidirectional ? 2 : 1;
  const size_t cells = static_cast<size_t>(s.num_layers) * directions;
  TORCH_CHECK(cells > 0 && params.size() % cells == 0 && params.size() / cells >= (s.has_biases ? 4u : 2u),
              "recurrent layer: got ", params.size(), " weights for ", cells, " cells, expected ", s.has_biases ? 4 : 2,
              " or more per cell");
  const size_t per_cell = params.size() / cells;
  const Tensors hiddens = at::unbind(hidden, 0);
  const Tensors cell_states = cell.defined() ? at::unbind(cell, 0) : Tensors(cells);
  TORCH_CHECK(input.dim() == 3 && hiddens.size() == cells && cell_states.size() == cells,
              "lstm, gru or rnn: expected an input of 3 dimensions and ", cells, " states, got an input of sizes ",
              input.sizes(), " and states of sizes ", hidden.sizes());
  at::Tensor x = input;
  Tensors last_hidden, last_cell;
  for (size_t number = 0; number < static_cast<size_t>(s.num_layers); ++number) {
    if (number > 0 && s.train && s.dropout > 0) x = Dropout(x, s.dropout);
    Tensors outputs;
    for (size_t direction = 0; direction < directions; ++direction) {
      const size_t index = number * directions + direction;
      const CellWeights weights = WeightsAt(params, index, per_cell, s.has_biases);
      RecurrentLayer layer = LayerOf(kind, x, weights, s.batch_first && number == 0);
      layer.reverse = direction == 1;
      layer.initial = {hiddens[index], cell_states[index]};
      RecurrentResult result = RunRecurrentLayer(std::move(layer));
      outputs.push_back(std::move(result.hidden));
      last_hidden.push_back(std::move(result.last.hidden));
      last_cell.push_back(std::move(result.last.cell));
    }
    x = outputs.size() == 1 ? outputs[0] : at::cat(outputs, -1);
  }
  if (s.batch_first) x = x.transpose(0, 1);
  return {x, at::stack(last_hidden, 0), cell.defined() ? at::stack(last_cell, 0) : at::Tensor()};
}

void CheckLstmStates(at::TensorList states) {
  TORCH_CHECK(states.size() == 2, "an LSTM takes two states, hidden and cell, got ", states.size());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> LstmInput(const at::Tensor& input, at::TensorList state,
                                                         at::TensorList params, bool has_biases, int64_t num_layers,
                                                         double dropout, bool train, bool bidirectional,
                                                         bool batch_first) {
  CheckLstmStates(state);
  return Run(RecurrentCell::kLstm, input, state[0], state[1], params,
             {has_biases, num_layers, dropout, train, bidirectional, batch_first});
}

template <RecurrentCell kCell>
std::tuple<at::Tensor, at::Tensor> OneState(const at::Tensor& input, const at::Tensor& state, at::TensorList params,
                                            bool has_biases, int64_t num_layers, double dropout, bool train,
                                            bool bidirectional, bool batch_first) {
  const auto [output, hidden, cell] = Run(kCell, input, state, at::Tensor(), params,
                                          {has_biases, num_layers, dropout, train, bidirectional, batch_first});
  return {output, hidden};
}

// Reports a packed sequence as unsupported and returns a placeholder of the output, so that tracing
// continues.
at::Tensor ReportPacked(Recorder& recorder, const std::string& op, const at::Tensor& data, const at::Tensor& state,
                        bool bidirectional) {
  recorder.ReportUnsupported(
      op,
      "the number of steps and rows of a packed sequence depends on data; pass a padded one, and mask "
      "the output");
  return at::zeros({data.size(0), state.size(-1) * (bidirectional ? 2 : 1)}, data.options().requires_grad(false));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> LstmPacked(const at::Tensor& data, const at::Tensor& batch_sizes,
                                                          at::TensorList state, at::TensorList params, bool has_biases,
                                                          int64_t num_layers, double dropout, bool train,
                                                          bool bidirectional) {
  if (Recorder* recorder = CurrentRecorder(); recorder != nullptr) {
    CheckLstmStates(state);
    return {ReportPacked(*recorder, "aten.lstm.data", data, state[0], bidirectional), state[0].clone(),
            state[1].clone()};
  }
  c10::impl::ExcludeDispatchKeyGuard guard(kRewriteKey);
  return at::lstm(data, batch_sizes, state, params, has_biases, num_layers, dropout, train, bidirectional);
}

using PackedFunction = std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                                          at::TensorList, bool, int64_t, double, bool, bool);

template <PackedFunction* kFunction>
std::tuple<at::Tensor, at::Tensor> OneStatePacked(const at::Tensor& data, const at::Tensor& batch_sizes,
                                                  const at::Tensor& state, at::TensorList params, bool has_biases,
                                                  int64_t num_layers, double dropout, bool train, bool bidirectional) {
  if (Recorder* recorder = CurrentRecorder(); recorder != nullptr) {
    const bool is_gru = kFunction == static_cast<PackedFunction*>(at::gru);
    const bool is_tanh = kFunction == static_cast<PackedFunction*>(at::rnn_tanh);
    const std::string op = is_gru ? "aten.gru.data" : is_tanh ? "aten.rnn_tanh.data" : "aten.rnn_relu.data";
    return {ReportPacked(*recorder, op, data, state, bidirectional), state.clone()};
  }
  c10::impl::ExcludeDispatchKeyGuard guard(kRewriteKey);
  return kFunction(data, batch_sizes, state, params, has_biases, num_layers, dropout, train, bidirectional);
}

// Cells split their gates by this op and write to the pieces in place; the pieces are copies.
Tensors UnsafeSplit(const at::Tensor& self, int64_t size, int64_t dim) { return at::split_copy(self, size, dim); }

Tensors UnsafeSplitWithSizes(const at::Tensor& self, at::IntArrayRef sizes, int64_t dim) {
  return at::split_with_sizes_copy(self, sizes, dim);
}

}  // namespace

void AddRecurrentRewrites(torch::Library& library) {
  library.impl("unsafe_split.Tensor", UnsafeSplit);
  library.impl("unsafe_split_with_sizes", UnsafeSplitWithSizes);
  library.impl("lstm.input", LstmInput);
  library.impl("gru.input", OneState<RecurrentCell::kGru>);
  library.impl("rnn_tanh.input", OneState<RecurrentCell::kRnnTanh>);
  library.impl("rnn_relu.input", OneState<RecurrentCell::kRnnRelu>);
  library.impl("lstm.data", LstmPacked);
  library.impl("gru.data", OneStatePacked<at::gru>);
  library.impl("rnn_tanh.data", OneStatePacked<at::rnn_tanh>);
  library.impl("rnn_relu.data", OneStatePacked<at::rnn_relu>);
}

}  // namespace cotan::aot
