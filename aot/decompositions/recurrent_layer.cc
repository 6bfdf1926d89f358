// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/recurrent_layer.h"

#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/unbind.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/ScalarType.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace cotan::aot {
namespace {

using Tensors = std::vector<at::Tensor>;
using OptionalTensor = std::optional<at::Tensor>;
using ThreeTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// Names of the cells, in the order of RecurrentCell.
constexpr std::string_view kNames[] = {"rnn_tanh", "rnn_relu", "lstm", "gru"};

std::string_view NameOf(RecurrentCell cell) { return kNames[static_cast<size_t>(cell)]; }

RecurrentCell CellNamed(std::string_view name) {
  const auto* const found = std::find(std::begin(kNames), std::end(kNames), name);
  TORCH_CHECK(found != std::end(kNames), "unknown recurrent cell '", std::string(name),
              "'; expected rnn_tanh, rnn_relu, lstm or gru");
  return static_cast<RecurrentCell>(found - std::begin(kNames));
}

bool HasGates(RecurrentCell cell) { return cell == RecurrentCell::kLstm || cell == RecurrentCell::kGru; }

at::Tensor OrUndefined(const OptionalTensor& tensor) { return tensor.value_or(at::Tensor()); }

OptionalTensor OrNone(const at::Tensor& tensor) { return tensor.defined() ? OptionalTensor(tensor) : std::nullopt; }

at::Tensor Linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return bias.defined() ? at::linear(x, weight, bias) : at::linear(x, weight);
}

// Computes one step; `x` is its slice of `projected`. `gates`, unless null, receives the gates that the
// backward op reads.
RecurrentState LstmStep(const RecurrentLayer& layer, const at::Tensor& x, const RecurrentState& state, Tensors* gates) {
  const Tensors sums = (x + at::linear(state.hidden, layer.weight)).chunk(4, -1);
  const Tensors open = {at::sigmoid(sums[0]), at::sigmoid(sums[1]), at::tanh(sums[2]), at::sigmoid(sums[3])};
  RecurrentState next;
  next.cell = open[1] * state.cell + open[0] * open[2];
  next.hidden = open[3] * at::tanh(next.cell);
  if (layer.projection.defined()) next.hidden = at::linear(next.hidden, layer.projection);
  if (gates != nullptr) gates->push_back(at::cat(open, -1));
  return next;
}

RecurrentState GruStep(const RecurrentLayer& layer, const at::Tensor& x, const RecurrentState& state, Tensors* gates) {
  const Tensors in = x.chunk(3, -1);
  const Tensors products = Linear(state.hidden, layer.weight, layer.bias).chunk(3, -1);
  const at::Tensor reset = at::sigmoid(in[0] + products[0]);
  const at::Tensor update = at::sigmoid(in[1] + products[1]);
  const at::Tensor fresh = at::tanh(in[2] + reset * products[2]);
  if (gates != nullptr) gates->push_back(at::cat({reset, update, fresh, products[2]}, -1));
  return {fresh + update * (state.hidden - fresh), at::Tensor()};
}

RecurrentState Step(const RecurrentLayer& layer, const at::Tensor& x, const RecurrentState& state, Tensors* gates) {
  if (layer.cell == RecurrentCell::kLstm) return LstmStep(layer, x, state, gates);
  if (layer.cell == RecurrentCell::kGru) return GruStep(layer, x, state, gates);
  const at::Tensor sum = x + at::linear(state.hidden, layer.weight);
  return {layer.cell == RecurrentCell::kRnnTanh ? at::tanh(sum) : at::relu(sum), at::Tensor()};
}

// States and gates of all steps, in time order.
struct Unrolled {
  Tensors hidden, cell, gates;
  RecurrentState last;
};

Unrolled Unroll(const RecurrentLayer& layer, bool keeps_gates) {
  Tensors steps = at::unbind(layer.projected, 0);
  if (layer.reverse) std::reverse(steps.begin(), steps.end());
  Unrolled result;
  result.last = layer.initial;
  for (const at::Tensor& x : steps) {
    result.last = Step(layer, x, result.last, keeps_gates ? &result.gates : nullptr);
    result.hidden.push_back(result.last.hidden);
    result.cell.push_back(result.last.cell);
  }
  if (!layer.reverse) return result;
  for (Tensors* tensors : {&result.hidden, &result.cell, &result.gates}) std::reverse(tensors->begin(), tensors->end());
  return result;
}

RecurrentResult RunStepByStep(const RecurrentLayer& layer) {
  const Unrolled unrolled = Unroll(layer, /*keeps_gates=*/false);
  return {at::stack(unrolled.hidden, 0), unrolled.last};
}

// The ops ---------------------------------------------------------------------------

ThreeTensors RecurrentCpu(const at::Tensor& projected, const at::Tensor& weight, const at::Tensor& h0,
                          const OptionalTensor& c0, const OptionalTensor& bias, std::string_view cell, bool reverse) {
  RecurrentLayer layer;
  layer.cell = CellNamed(cell);
  layer.reverse = reverse;
  layer.projected = projected;
  layer.weight = weight;
  layer.bias = OrUndefined(bias);
  layer.initial = {h0, OrUndefined(c0)};
  const Unrolled unrolled = Unroll(layer, HasGates(layer.cell));
  return {at::stack(unrolled.hidden, 0),
          layer.cell == RecurrentCell::kLstm ? at::stack(unrolled.cell, 0) : at::Tensor(),
          HasGates(layer.cell) ? at::stack(unrolled.gates, 0) : at::Tensor()};
}

// Saved values of one step.
struct StepValues {
  at::Tensor hidden, hidden_before, cell, cell_before;
  Tensors gates;
};

// Replaces the gradient of the state after the step by that of the state before it, without the part that
// goes through the weights. Returns the gradients of the gates.
at::Tensor StepBack(RecurrentCell cell, const StepValues& s, RecurrentState& grad) {
  const at::Tensor g = grad.hidden;
  if (cell == RecurrentCell::kLstm) {
    const at::Tensor squashed = at::tanh(s.cell);
    const at::Tensor grad_cell = grad.cell + g * s.gates[3] * (1 - squashed * squashed);
    const at::Tensor sums =
        at::cat({grad_cell * s.gates[2] * s.gates[0] * (1 - s.gates[0]),
                 grad_cell * s.cell_before * s.gates[1] * (1 - s.gates[1]),
                 grad_cell * s.gates[0] * (1 - s.gates[2] * s.gates[2]), g * squashed * s.gates[3] * (1 - s.gates[3])},
                -1);
    grad = {at::zeros_like(g), grad_cell * s.gates[1]};
    return sums;
  }
  if (cell == RecurrentCell::kGru) {
    const at::Tensor fresh = g * (1 - s.gates[1]) * (1 - s.gates[2] * s.gates[2]);
    const at::Tensor reset = fresh * s.gates[3] * s.gates[0] * (1 - s.gates[0]);
    const at::Tensor update = g * (s.hidden_before - s.gates[2]) * s.gates[1] * (1 - s.gates[1]);
    grad.hidden = g * s.gates[1];
    return at::cat({reset, update, fresh, fresh * s.gates[0]}, -1);
  }
  const bool is_tanh = cell == RecurrentCell::kRnnTanh;
  const at::Tensor sums = g * (is_tanh ? 1 - s.hidden * s.hidden : (s.hidden > 0).to(g.scalar_type()));
  grad.hidden = at::zeros_like(g);
  return sums;
}

// Returns the gradients of the hidden products among those of the gates (last dimension).
Tensors ProductGradients(RecurrentCell cell, const at::Tensor& gates) {
  if (cell != RecurrentCell::kGru) return {gates};
  const int64_t size = gates.size(-1) / 4;
  return {gates.slice(-1, 0, 2 * size), gates.slice(-1, 3 * size)};
}

ThreeTensors RecurrentBackwardCpu(const at::Tensor& grad_hidden, const at::Tensor& hidden, const at::Tensor& weight,
                                  const at::Tensor& h0, const OptionalTensor& gates, const OptionalTensor& cell,
                                  const OptionalTensor& c0, const OptionalTensor& grad_last_cell,
                                  std::string_view cell_name, bool reverse) {
  const RecurrentCell kind = CellNamed(cell_name);
  const int64_t steps = hidden.size(0);
  const auto step = [&](int64_t i) { return reverse ? steps - 1 - i : i; };
  RecurrentState grad = {at::zeros_like(h0), OrUndefined(grad_last_cell)};
  Tensors gradients(static_cast<size_t>(steps));
  for (int64_t i = steps; i-- > 0;) {
    const int64_t t = step(i);
    StepValues values;
    values.hidden = hidden[t];
    values.hidden_before = i == 0 ? h0 : hidden[step(i - 1)];
    if (HasGates(kind)) values.gates = (*gates)[t].chunk(4, -1);
    if (kind == RecurrentCell::kLstm) {
      values.cell = (*cell)[t];
      values.cell_before = i == 0 ? *c0 : (*cell)[step(i - 1)];
    }
    grad.hidden = grad.hidden + grad_hidden[t];
    const at::Tensor sums = StepBack(kind, values, grad);
    grad.hidden = grad.hidden + at::matmul(at::cat(ProductGradients(kind, sums), -1), weight);
    gradients[static_cast<size_t>(t)] = sums;
  }
  return {at::stack(gradients, 0), grad.hidden, kind == RecurrentCell::kLstm ? grad.cell : at::Tensor()};
}

template <typename Function>
auto FindOp(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Function>();
}

ThreeTensors CallRecurrent(const RecurrentLayer& layer) {
  static const auto op = FindOp<decltype(RecurrentCpu)>("cotan::recurrent");
  return op.call(layer.projected, layer.weight, layer.initial.hidden, OrNone(layer.initial.cell), OrNone(layer.bias),
                 NameOf(layer.cell), layer.reverse);
}

// Its derivative ----------------------------------------------------------------------

// Returns the states before each step, [T, N, H].
at::Tensor StatesBefore(const at::Tensor& hidden, const at::Tensor& h0, bool reverse) {
  const at::Tensor first = h0.unsqueeze(0);
  return reverse ? at::cat({hidden.slice(0, 1), first}, 0) : at::cat({first, hidden.slice(0, 0, -1)}, 0);
}

// The op as an autograd function of (projected, weight, h0, c0, bias). Its results are the states of all
// steps and, for an LSTM, its last cell.
struct LayerFunction : torch::autograd::Function<LayerFunction> {
  using Context = torch::autograd::AutogradContext;

  static Tensors forward(Context* context, const at::Tensor& projected, const at::Tensor& weight, const at::Tensor& h0,
                         const OptionalTensor& c0, const OptionalTensor& bias, int64_t cell, bool reverse) {
    RecurrentLayer layer;
    layer.cell = static_cast<RecurrentCell>(cell);
    layer.reverse = reverse;
    layer.projected = projected;
    layer.weight = weight;
    layer.bias = OrUndefined(bias);
    layer.initial = {h0, OrUndefined(c0)};
    const auto [hidden, cells, gates] = CallRecurrent(layer);
    context->saved_data["cell"] = cell;
    context->saved_data["reverse"] = reverse;
    context->saved_data["has_bias"] = bias.has_value();
    Tensors saved = {projected, weight, h0, hidden};
    if (HasGates(layer.cell)) saved.push_back(gates);
    if (layer.cell == RecurrentCell::kLstm) saved.insert(saved.end(), {cells, *c0});
    if (bias.has_value()) saved.push_back(*bias);
    context->save_for_backward(std::move(saved));
    if (layer.cell != RecurrentCell::kLstm) return {hidden};
    return {hidden, cells.select(0, reverse ? 0 : -1).clone()};
  }

  static Tensors backward(Context* context, const Tensors& gradients) {
    const Tensors saved = context->get_saved_variables();
    RecurrentLayer layer;
    layer.cell = static_cast<RecurrentCell>(context->saved_data["cell"].toInt());
    layer.reverse = context->saved_data["reverse"].toBool();
    layer.projected = saved[0];
    layer.weight = saved[1];
    layer.initial.hidden = saved[2];
    if (layer.cell == RecurrentCell::kLstm) layer.initial.cell = saved[6];
    if (context->saved_data["has_bias"].toBool()) layer.bias = saved.back();
    Tensors results = at::GradMode::is_enabled() ? DifferentiableGradients(layer, gradients)
                                                 : FusedGradients(layer, saved, gradients);
    results.resize(7);  // undefined for `cell` and `reverse`
    return results;
  }

 private:
  // Returns the gradients of projected, weight, h0, c0 and bias.
  static Tensors FusedGradients(const RecurrentLayer& layer, const Tensors& saved, const Tensors& gradients) {
    const bool is_lstm = layer.cell == RecurrentCell::kLstm;
    const at::Tensor& hidden = saved[3];
    static const auto op = FindOp<decltype(RecurrentBackwardCpu)>("cotan::recurrent_backward");
    const auto [gates, h0, c0] =
        op.call(gradients[0], hidden, layer.weight, layer.initial.hidden,
                HasGates(layer.cell) ? OptionalTensor(saved[4]) : std::nullopt,
                is_lstm ? OptionalTensor(saved[5]) : std::nullopt, OrNone(layer.initial.cell),
                is_lstm ? OptionalTensor(gradients[1]) : std::nullopt, NameOf(layer.cell), layer.reverse);
    const at::Tensor before = StatesBefore(hidden, layer.initial.hidden, layer.reverse).flatten(0, 1);
    Tensors weights;
    for (const at::Tensor& products : ProductGradients(layer.cell, gates)) {
      weights.push_back(at::matmul(products.flatten(0, 1).t(), before));
    }
    const at::Tensor projected = layer.cell == RecurrentCell::kGru ? gates.slice(-1, 0, layer.weight.size(0)) : gates;
    at::Tensor bias;
    if (layer.bias.defined()) bias = at::cat(ProductGradients(layer.cell, gates.sum({0, 1})), 0);
    return {projected, weights.size() == 1 ? weights[0] : at::cat(weights, 0), h0, c0, bias};
  }

  // Returns the same gradients from LibTorch's derivatives of each step, which are differentiable.
  static Tensors DifferentiableGradients(const RecurrentLayer& layer, const Tensors& gradients) {
    const RecurrentResult result = RunStepByStep(layer);
    Tensors outputs = {result.hidden};
    if (layer.cell == RecurrentCell::kLstm) outputs.push_back(result.last.cell);
    const Tensors inputs = {layer.projected, layer.weight, layer.initial.hidden, layer.initial.cell, layer.bias};
    Tensors wanted;
    for (const at::Tensor& input : inputs) {
      if (input.defined() && input.requires_grad()) wanted.push_back(input);
    }
    const Tensors found = torch::autograd::grad(outputs, wanted, gradients, /*retain_graph=*/true,
                                                /*create_graph=*/true, /*allow_unused=*/true);
    Tensors results(inputs.size());
    for (size_t i = 0, next = 0; i < inputs.size(); ++i) {
      if (inputs[i].defined() && inputs[i].requires_grad()) results[i] = found[next++];
    }
    return results;
  }
};

// Rejects operands that would broadcast, as LibTorch does.
void CheckSizes(const RecurrentLayer& l) {
  TORCH_CHECK(l.projected.dim() == 3 && l.weight.dim() == 2,
              "recurrent layer: expected projected [T, N, gates * H] and weight [gates * H, H], got ",
              l.projected.sizes(), " and ", l.weight.sizes());
  TORCH_CHECK(l.projected.size(0) > 0, "recurrent layer: the sequence has no steps");
  const int64_t gates = l.cell == RecurrentCell::kLstm ? 4 : l.cell == RecurrentCell::kGru ? 3 : 1;
  const int64_t batch = l.projected.size(1), rows = l.weight.size(0), hidden = l.weight.size(1);
  const int64_t cell = rows / gates;
  TORCH_CHECK(rows == gates * cell && l.projected.size(2) == rows && (l.projection.defined() || hidden == cell) &&
                  (!l.bias.defined() || l.bias.sizes() == at::IntArrayRef({rows})),
              "recurrent layer of ", gates,
              " gates: expected projected [T, N, gates * H] and weight [gates * H, H], got ", l.projected.sizes(),
              " and ", l.weight.sizes());
  const at::Tensor &h0 = l.initial.hidden, &c0 = l.initial.cell;
  TORCH_CHECK(h0.sizes() == at::IntArrayRef({batch, hidden}), "recurrent layer: the initial state has sizes ",
              h0.sizes(), ", expected [", batch, ", ", hidden, "]");
  TORCH_CHECK(l.cell != RecurrentCell::kLstm || (c0.defined() && c0.sizes() == at::IntArrayRef({batch, cell})),
              "LSTM: the initial cell has sizes ", c0.defined() ? c0.sizes() : at::IntArrayRef(), ", expected [", batch,
              ", ", cell, "]");
}

// Autocast does not convert weights and states. Plain cells take the dtype of the sums, gated cells the
// dtype in which they add up their state.
void BringToOneDtype(RecurrentLayer& layer) {
  at::ScalarType dtype = layer.projected.scalar_type();
  if (HasGates(layer.cell)) dtype = c10::promoteTypes(dtype, layer.initial.hidden.scalar_type());
  for (at::Tensor* tensor :
       {&layer.projected, &layer.weight, &layer.bias, &layer.initial.hidden, &layer.initial.cell}) {
    if (!tensor->defined() || tensor->scalar_type() == dtype) continue;
    TORCH_CHECK(at::autocast::is_autocast_enabled(at::kCPU) && at::isFloatingType(tensor->scalar_type()),
                "recurrent layer: an operand has dtype ", at::toString(tensor->scalar_type()), ", expected ",
                at::toString(dtype));
    *tensor = tensor->to(dtype);
  }
}

}  // namespace

RecurrentResult RunRecurrentLayer(RecurrentLayer layer) {
  CheckSizes(layer);
  if (layer.projection.defined() || !at::isFloatingType(layer.projected.scalar_type())) return RunStepByStep(layer);
  BringToOneDtype(layer);
  const Tensors results =
      LayerFunction::apply(layer.projected, layer.weight, layer.initial.hidden, OrNone(layer.initial.cell),
                           OrNone(layer.bias), static_cast<int64_t>(layer.cell), layer.reverse);
  RecurrentResult result;
  result.hidden = results[0];
  result.last.hidden = results[0].select(0, layer.reverse ? 0 : -1);
  if (layer.cell == RecurrentCell::kLstm) result.last.cell = results[1];
  return result;
}

void DefineRecurrent(torch::Library& library) {
  library.def(
      "recurrent(Tensor projected, Tensor weight, Tensor h0, Tensor? c0, Tensor? bias, str cell, bool reverse) -> "
      "(Tensor hidden, Tensor cell, Tensor gates)");
  library.def(
      "recurrent_backward(Tensor grad_hidden, Tensor hidden, Tensor weight, Tensor h0, Tensor? gates, Tensor? cell, "
      "Tensor? c0, Tensor? grad_last_cell, str cell_name, bool reverse) -> (Tensor grad_gates, Tensor grad_h0, "
      "Tensor grad_c0)");
  library.impl("recurrent", torch::dispatch(c10::DispatchKey::CPU, RecurrentCpu));
  library.impl("recurrent_backward", torch::dispatch(c10::DispatchKey::CPU, RecurrentBackwardCpu));
  for (const char* op : {"recurrent", "recurrent_backward"}) {
    library.impl(op, torch::dispatch(c10::DispatchKey::Autograd, torch::CppFunction::makeFallthrough()));
  }
}

}  // namespace cotan::aot
