#include "aot/trace/recurrent_ops.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/split_copy.h>
#include <ATen/ops/split_with_sizes_copy.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/unbind.h>
#include <torch/library.h>

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "aot/trace/random_ops.h"

namespace cotan::aot {
namespace {

using Tensors = std::vector<at::Tensor>;

// Weights of one layer in one direction.
struct CellWeights {
  at::Tensor input;        // [gates * H, I]
  at::Tensor hidden;       // [gates * H, H]
  at::Tensor input_bias;   // undefined if there are none
  at::Tensor hidden_bias;  // undefined if there are none
  at::Tensor projection;   // of an LSTM's output; undefined without one
};

// What a layer remembers from step to step; `cell` is an LSTM's alone.
struct CellState {
  at::Tensor hidden;
  at::Tensor cell;
};

at::Tensor Linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return bias.defined() ? at::linear(x, weight, bias) : at::linear(x, weight);
}

// A kind of cell: the products with the input of all steps at once, then a step.
struct Lstm {
  static at::Tensor Project(const at::Tensor& input, const CellWeights& w) {
    const at::Tensor bias = w.input_bias.defined() ? w.input_bias + w.hidden_bias : at::Tensor();
    return Linear(input, w.input, bias);
  }
  static CellState Step(const at::Tensor& projected, const CellState& state, const CellWeights& w) {
    const Tensors gates = (projected + at::linear(state.hidden, w.hidden)).chunk(4, -1);
    CellState next;
    next.cell = at::sigmoid(gates[1]) * state.cell + at::sigmoid(gates[0]) * at::tanh(gates[2]);
    next.hidden = at::sigmoid(gates[3]) * at::tanh(next.cell);
    if (w.projection.defined()) next.hidden = at::linear(next.hidden, w.projection);
    return next;
  }
};

struct Gru {
  static at::Tensor Project(const at::Tensor& input, const CellWeights& w) {
    return Linear(input, w.input, w.input_bias);
  }
  static CellState Step(const at::Tensor& projected, const CellState& state, const CellWeights& w) {
    const Tensors x = projected.chunk(3, -1);
    const Tensors h = Linear(state.hidden, w.hidden, w.hidden_bias).chunk(3, -1);
    const at::Tensor reset = at::sigmoid(x[0] + h[0]);
    const at::Tensor update = at::sigmoid(x[1] + h[1]);
    const at::Tensor fresh = at::tanh(x[2] + reset * h[2]);
    return {fresh + update * (state.hidden - fresh), at::Tensor()};
  }
};

template <at::Tensor (*kActivation)(const at::Tensor&)>
struct Simple {
  static at::Tensor Project(const at::Tensor& input, const CellWeights& w) { return Lstm::Project(input, w); }
  static CellState Step(const at::Tensor& projected, const CellState& state, const CellWeights& w) {
    return {kActivation(projected + at::linear(state.hidden, w.hidden)), at::Tensor()};
  }
};

// One layer in one direction over [T, N, I]; leaves the last state in `state`.
template <typename Cell>
at::Tensor RunDirection(const at::Tensor& input, const CellWeights& weights, bool reverse, CellState& state) {
  Tensors steps = at::unbind(Cell::Project(input, weights), 0);
  if (reverse) std::reverse(steps.begin(), steps.end());
  Tensors outputs;
  for (const at::Tensor& step : steps) {
    state = Cell::Step(step, state, weights);
    outputs.push_back(state.hidden);
  }
  if (reverse) std::reverse(outputs.begin(), outputs.end());
  return at::stack(outputs, 0);
}

struct Settings {
  bool has_biases;
  int64_t num_layers;
  double dropout;
  bool train;
  bool bidirectional;
  bool batch_first;
};

// `params` layer by layer, forward then backward direction.
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

// All layers; `hidden` and `cell` are [layers * directions, N, H].
template <typename Cell>
std::tuple<at::Tensor, at::Tensor, at::Tensor> Run(const at::Tensor& input, const at::Tensor& hidden,
                                                   const at::Tensor& cell, at::TensorList params, const Settings& s) {
  const size_t directions = s.bidirectional ? 2 : 1;
  const size_t cells = static_cast<size_t>(s.num_layers) * directions;
  TORCH_CHECK(cells > 0 && params.size() % cells == 0 && params.size() / cells >= (s.has_biases ? 4u : 2u),
              "a recurrent layer with ", params.size(), " weights for ", cells, " cells");
  const size_t per_cell = params.size() / cells;
  const Tensors hiddens = at::unbind(hidden, 0);
  const Tensors cell_states = cell.defined() ? at::unbind(cell, 0) : Tensors(cells);
  at::Tensor x = s.batch_first ? input.transpose(0, 1) : input;
  Tensors last_hidden, last_cell;
  for (size_t layer = 0; layer < static_cast<size_t>(s.num_layers); ++layer) {
    if (layer > 0 && s.train && s.dropout > 0) x = Dropout(x, s.dropout);
    Tensors outputs;
    for (size_t direction = 0; direction < directions; ++direction) {
      const size_t index = layer * directions + direction;
      CellState state = {hiddens[index], cell_states[index]};
      outputs.push_back(RunDirection<Cell>(x, WeightsAt(params, index, per_cell, s.has_biases), direction == 1, state));
      last_hidden.push_back(state.hidden);
      last_cell.push_back(state.cell);
    }
    x = outputs.size() == 1 ? outputs[0] : at::cat(outputs, -1);
  }
  if (s.batch_first) x = x.transpose(0, 1);
  return {x, at::stack(last_hidden, 0), cell.defined() ? at::stack(last_cell, 0) : at::Tensor()};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> LstmInput(const at::Tensor& input, at::TensorList state,
                                                         at::TensorList params, bool has_biases, int64_t num_layers,
                                                         double dropout, bool train, bool bidirectional,
                                                         bool batch_first) {
  TORCH_CHECK(state.size() == 2, "an LSTM has two states, hidden and cell, not ", state.size());
  return Run<Lstm>(input, state[0], state[1], params,
                   {has_biases, num_layers, dropout, train, bidirectional, batch_first});
}

template <typename Cell>
std::tuple<at::Tensor, at::Tensor> OneState(const at::Tensor& input, const at::Tensor& state, at::TensorList params,
                                            bool has_biases, int64_t num_layers, double dropout, bool train,
                                            bool bidirectional, bool batch_first) {
  const auto [output, hidden, cell] = Run<Cell>(input, state, at::Tensor(), params,
                                                {has_biases, num_layers, dropout, train, bidirectional, batch_first});
  return {output, hidden};
}

// What cells cut their gates with, to write to them in place: pieces of their own.
Tensors UnsafeSplit(const at::Tensor& self, int64_t size, int64_t dim) { return at::split_copy(self, size, dim); }

Tensors UnsafeSplitWithSizes(const at::Tensor& self, at::IntArrayRef sizes, int64_t dim) {
  return at::split_with_sizes_copy(self, sizes, dim);
}

}  // namespace

void AddRecurrentRewrites(torch::Library& library) {
  library.impl("unsafe_split.Tensor", UnsafeSplit);
  library.impl("unsafe_split_with_sizes", UnsafeSplitWithSizes);
  library.impl("lstm.input", LstmInput);
  library.impl("gru.input", OneState<Gru>);
  library.impl("rnn_tanh.input", OneState<Simple<at::tanh>>);
  library.impl("rnn_relu.input", OneState<Simple<at::relu>>);
}

}  // namespace cotan::aot
