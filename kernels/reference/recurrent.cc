// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/reference/function_kernel.h"
#include "kernels/reference/ops.h"

namespace cotan::reference {
namespace {

using serialization::Op;
using serialization::Recurrent;

using Row = std::vector<double>;

double Logistic(double x) { return 1 / (1 + std::exp(-x)); }

Row ReadRow(const Tensor& tensor, int64_t n) {
  Row row;
  for (int64_t j = 0; j < tensor.size(1); ++j) row.push_back(tensor.GetFloat({n, j}));
  return row;
}

Row ReadRow(const Tensor& tensor, int64_t t, int64_t n) {
  Row row;
  for (int64_t j = 0; j < tensor.size(2); ++j) row.push_back(tensor.GetFloat({t, n, j}));
  return row;
}

void WriteRow(const Tensor& tensor, int64_t n, const Row& row) {
  for (size_t j = 0; j < row.size(); ++j) tensor.SetFloat({n, static_cast<int64_t>(j)}, row[j]);
}

void WriteRow(const Tensor& tensor, int64_t t, int64_t n, const Row& row) {
  for (size_t j = 0; j < row.size(); ++j) tensor.SetFloat({t, n, static_cast<int64_t>(j)}, row[j]);
}

// Multiplies weight [G*H, H] by a state.
Row Times(const Tensor& weight, const Row& state) {
  Row product(static_cast<size_t>(weight.size(0)), 0);
  for (size_t i = 0; i < product.size(); ++i) {
    for (size_t k = 0; k < state.size(); ++k) {
      product[i] += weight.GetFloat({static_cast<int64_t>(i), static_cast<int64_t>(k)}) * state[k];
    }
  }
  return product;
}

// Multiplies the transposed weight by gradients of the gates.
Row TransposedTimes(const Tensor& weight, const Row& slopes) {
  Row product(static_cast<size_t>(weight.size(1)), 0);
  for (size_t i = 0; i < slopes.size(); ++i) {
    for (size_t k = 0; k < product.size(); ++k) {
      product[k] += weight.GetFloat({static_cast<int64_t>(i), static_cast<int64_t>(k)}) * slopes[i];
    }
  }
  return product;
}

struct State {
  Row hidden, cell;
};

// Computes one step of one row: `x` is its row of `projected`, `h` its hidden products. Writes the values
// that the backward needs to `saved`, [4*H].
void Step(Recurrent::Cell cell, const Row& x, const Row& h, State& state, Row& saved) {
  const size_t size = state.hidden.size();
  for (size_t j = 0; j < size; ++j) {
    const auto sum = [&](size_t gate) { return x[gate * size + j] + h[gate * size + j]; };
    double& hidden = state.hidden[j];
    if (cell == Recurrent::RNN_TANH) {
      hidden = std::tanh(sum(0));
    } else if (cell == Recurrent::RNN_RELU) {
      hidden = sum(0) < 0 ? 0 : sum(0);
    } else if (cell == Recurrent::LSTM) {
      const double in = Logistic(sum(0)), forget = Logistic(sum(1)), fresh = std::tanh(sum(2)), out = Logistic(sum(3));
      state.cell[j] = forget * state.cell[j] + in * fresh;
      hidden = out * std::tanh(state.cell[j]);
      saved[j] = in, saved[size + j] = forget, saved[2 * size + j] = fresh, saved[3 * size + j] = out;
    } else {
      const double reset = Logistic(sum(0)), update = Logistic(sum(1));
      const double fresh = std::tanh(x[2 * size + j] + reset * h[2 * size + j]);
      hidden = (1 - update) * fresh + update * hidden;
      saved[j] = reset, saved[size + j] = update, saved[2 * size + j] = fresh, saved[3 * size + j] = h[2 * size + j];
    }
  }
}

absl::Status RunForward(const Op& op, const Tensors& in, const Tensors& out) {
  const Recurrent::Cell cell = op.recurrent().cell();
  const bool is_lstm = cell == Recurrent::LSTM;
  const bool has_bias = cell == Recurrent::GRU && in.size() > 3;
  const int64_t steps = out[0].size(0);
  for (int64_t n = 0; n < out[0].size(1); ++n) {
    State state = {ReadRow(in[2], n), is_lstm ? ReadRow(in[3], n) : Row()};
    Row saved(4 * state.hidden.size(), 0);
    for (int64_t i = 0; i < steps; ++i) {
      const int64_t t = op.recurrent().reverse() ? steps - 1 - i : i;
      Row products = Times(in[1], state.hidden);
      for (size_t k = 0; has_bias && k < products.size(); ++k) {
        products[k] += in[3].GetFloat({static_cast<int64_t>(k)});
      }
      Step(cell, ReadRow(in[0], t, n), products, state, saved);
      WriteRow(out[0], t, n, state.hidden);
      if (is_lstm) WriteRow(out[1], t, n, state.cell);
      if (out.size() > (is_lstm ? 2 : 1)) WriteRow(out.back(), t, n, saved);
    }
  }
  return absl::OkStatus();
}

// The gradients of the state of one row.
struct Gradients {
  Row hidden, cell;
};

// The values of one row in one step that its derivative depends on.
struct Saved {
  Row hidden, hidden_before, gates, cell, cell_before;
};

// Computes the gradients before a step from those after it, except the product with the weights. Writes the
// gradients of the gates to `sums`.
void StepBack(Recurrent::Cell cell, const Saved& s, Gradients& grad, Row& sums) {
  const size_t size = grad.hidden.size();
  for (size_t j = 0; j < size; ++j) {
    const double g = std::exchange(grad.hidden[j], 0);
    if (cell == Recurrent::RNN_TANH) {
      sums[j] = g * (1 - s.hidden[j] * s.hidden[j]);
    } else if (cell == Recurrent::RNN_RELU) {
      sums[j] = s.hidden[j] > 0 ? g : 0;
    } else if (cell == Recurrent::LSTM) {
      const double in = s.gates[j], forget = s.gates[size + j], fresh = s.gates[2 * size + j];
      const double out = s.gates[3 * size + j], cell_tanh = std::tanh(s.cell[j]);
      const double grad_cell = grad.cell[j] + g * out * (1 - cell_tanh * cell_tanh);
      sums[j] = grad_cell * fresh * in * (1 - in);
      sums[size + j] = grad_cell * s.cell_before[j] * forget * (1 - forget);
      sums[2 * size + j] = grad_cell * in * (1 - fresh * fresh);
      sums[3 * size + j] = g * cell_tanh * out * (1 - out);
      grad.cell[j] = grad_cell * forget;
    } else {
      const double reset = s.gates[j], update = s.gates[size + j], fresh = s.gates[2 * size + j];
      const double grad_fresh = g * (1 - update) * (1 - fresh * fresh);
      sums[j] = grad_fresh * s.gates[3 * size + j] * reset * (1 - reset);
      sums[size + j] = g * (s.hidden_before[j] - fresh) * update * (1 - update);
      sums[2 * size + j] = grad_fresh;
      sums[3 * size + j] = grad_fresh * reset;
      grad.hidden[j] = g * update;
    }
  }
}

// Returns the gradients of the hidden products among those of the gates.
Row ProductsOf(Recurrent::Cell cell, const Row& sums) {
  if (cell != Recurrent::GRU) return sums;
  Row products = sums;
  const auto size = static_cast<std::ptrdiff_t>(sums.size() / 4);
  products.erase(products.begin() + 2 * size, products.begin() + 3 * size);
  return products;
}

absl::Status RunBackward(const Op& op, const Tensors& in, const Tensors& out) {
  const Recurrent::Cell cell = op.recurrent_backward().cell();
  const bool is_lstm = cell == Recurrent::LSTM;
  const Tensor &grad_hidden = in[0], &hidden = in[1], &weight = in[2], &h0 = in[3];
  const int64_t steps = hidden.size(0);
  for (int64_t n = 0; n < hidden.size(1); ++n) {
    Gradients grad = {Row(static_cast<size_t>(hidden.size(2)), 0), is_lstm ? ReadRow(in[7], n) : Row()};
    for (int64_t i = steps; i-- > 0;) {
      const auto step = [&](int64_t k) { return op.recurrent_backward().reverse() ? steps - 1 - k : k; };
      const int64_t t = step(i);
      Saved saved;
      saved.hidden = ReadRow(hidden, t, n);
      saved.hidden_before = i == 0 ? ReadRow(h0, n) : ReadRow(hidden, step(i - 1), n);
      if (in.size() > 4) saved.gates = ReadRow(in[4], t, n);
      if (is_lstm) {
        saved.cell = ReadRow(in[5], t, n);
        saved.cell_before = i == 0 ? ReadRow(in[6], n) : ReadRow(in[5], step(i - 1), n);
      }
      for (size_t j = 0; j < grad.hidden.size(); ++j) {
        grad.hidden[j] += grad_hidden.GetFloat({t, n, static_cast<int64_t>(j)});
      }
      Row sums(static_cast<size_t>(out[0].size(2)), 0);
      StepBack(cell, saved, grad, sums);
      const Row through_weight = TransposedTimes(weight, ProductsOf(cell, sums));
      for (size_t j = 0; j < grad.hidden.size(); ++j) grad.hidden[j] += through_weight[j];
      WriteRow(out[0], t, n, sums);
    }
    WriteRow(out[1], n, grad.hidden);
    if (is_lstm) WriteRow(out[2], n, grad.cell);
  }
  return absl::OkStatus();
}

}  // namespace

KernelOr MakeRecurrent(const KernelRequest& request) { return MakeFunctionKernel(request, RunForward); }
KernelOr MakeRecurrentBackward(const KernelRequest& request) { return MakeFunctionKernel(request, RunBackward); }

}  // namespace cotan::reference
