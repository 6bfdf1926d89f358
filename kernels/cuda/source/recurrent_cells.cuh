// SPDX-License-Identifier: Apache-2.0

// The functions of recurrent cells and their gradients, of one unit in one time step. R and the kinds of cells:
// recurrent.cuh.
#pragma once

#include "cotan/recurrent.cuh"

namespace cotan::recurrent {

// Numbers of gates, which the products with the weights have, and of values of a unit that are saved for the backward.
template <typename R>
inline constexpr int kGatesOf = R::kCell == kLstm  ? 4
                                : R::kCell == kGru ? 3
                                                   : 1;
template <typename R>
inline constexpr bool kSavesGates = R::kCell == kLstm || R::kCell == kGru;

// Number of gradients of a unit in a step, which GradGates has.
template <typename R>
inline constexpr int kGradients = kSavesGates<R> ? 4 : 1;

// Returns which of the hidden products has the k-th gradient, -1 for none: a GRU's third is that of the projected input
// alone.
template <typename R>
__device__ constexpr int ProductOf(int k) {
  if (R::kCell != kGru || k < 2) return k;
  return k == 2 ? -1 : 2;
}

// Returns tanh(x) if `is_tanh`, else 1 / (1 + exp(-x)), with an error of some 2^-23; that of tanh is relative to its
// value. There are no branches: a time step waits for these functions, and lanes of a warp differ in `is_tanh`.
__device__ inline float Gate(float x, bool is_tanh) {
  const float magnitude = fabsf(x);
  // The rounded exponent of 2 is off by 2^-24 of itself; the functions are flat where it is large.
  float exponent = (is_tanh ? magnitude : x) * (is_tanh ? -2.88539008f : -1.44269504f);
  exponent = exponent > 125.0f ? 125.0f : exponent;  // NaN stays
  float power, inverse;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent));
  const float sum = 1 + power;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(sum));
  inverse = __fmaf_rn(inverse, __fmaf_rn(-sum, inverse, 1.0f), inverse);
  // Below 0.57, the difference of powers loses digits: x + x^3 p(x^2), a minimax approximation.
  const float square = x * x;
  float series = -6.1230208e-3f;
  series = __fmaf_rn(series, square, 2.0967435e-2f);
  series = __fmaf_rn(series, square, -5.3827822e-2f);
  series = __fmaf_rn(series, square, 1.3332362e-1f);
  series = __fmaf_rn(series, square, -3.3333310e-1f);
  const float small = __fmaf_rn(x * square, series, x);
  const float large = copysignf((1 - power) * inverse, x);
  return is_tanh ? (magnitude < 0.57f ? small : large) : inverse;
}
__device__ inline double Gate(double x, bool is_tanh) { return is_tanh ? Tanh(x) : Logistic(x); }

// The states of a unit.
template <typename Compute>
struct State {
  Compute hidden, cell;
};

// Replaces `state` by the state after a step with the projected inputs `x` and the hidden products `h`, and writes what
// Gates of program.proto has.
template <typename R, typename Compute>
__device__ inline void ForwardCell(const Compute (&x)[kGatesOf<R>], const Compute (&h)[kGatesOf<R>],
                                   State<Compute>& state, Compute (&saved)[4]) {
  if constexpr (R::kCell == kTanh) {
    state.hidden = Gate(x[0] + h[0], true);
  } else if constexpr (R::kCell == kRelu) {
    state.hidden = Relu(x[0] + h[0]);
  } else {
    saved[0] = Gate(x[0] + h[0], false);
    saved[1] = Gate(x[1] + h[1], false);
    if constexpr (R::kCell == kLstm) {
      saved[2] = Gate(x[2] + h[2], true);
      saved[3] = Gate(x[3] + h[3], false);
      state.cell = saved[1] * state.cell + saved[0] * saved[2];
      state.hidden = saved[3] * Gate(state.cell, true);
    } else {
      saved[2] = Gate(x[2] + saved[0] * h[2], true);
      saved[3] = h[2];
      state.hidden = saved[2] + saved[1] * (state.hidden - saved[2]);
    }
  }
}

// What a step of the backward reads of a unit.
template <typename Element>
struct SavedUnit {
  Element grad_hidden;
  Element gates[4];
  Element hidden;  // of the step
  Element before;  // the state before the step: hidden of a GRU, cell of an LSTM
  Element cell;    // of the step
};

// The derivatives of a step by the gradient of its state, which do not depend on that gradient.
template <typename R, typename Compute>
struct CellSlopes {
  Compute grad_hidden;
  Compute slopes[4];
  Compute through;  // from the gradient of hidden to that of the cell; a GRU's reset gate
  Compute kept;     // from the gradient of the state to that of the state before

  CellSlopes() = default;
  __device__ explicit CellSlopes(const SavedUnit<typename R::Element>& unit) {
    grad_hidden = Widen(unit.grad_hidden);
    Compute gates[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) gates[k] = Widen(unit.gates[k]);
    if constexpr (R::kCell == kLstm) {
      const Compute in = gates[0], forget = gates[1], fresh = gates[2], out = gates[3];
      const Compute cell = Gate(Widen(unit.cell), true);
      slopes[0] = fresh * in * (1 - in);
      slopes[1] = Widen(unit.before) * forget * (1 - forget);
      slopes[2] = in * (1 - fresh * fresh);
      slopes[3] = cell * out * (1 - out);
      through = out * (1 - cell * cell);
      kept = forget;
    } else if constexpr (R::kCell == kGru) {
      const Compute reset = gates[0], update = gates[1], fresh = gates[2], product = gates[3];
      slopes[0] = product * reset * (1 - reset);
      slopes[1] = (Widen(unit.before) - fresh) * update * (1 - update);
      slopes[2] = (1 - update) * (1 - fresh * fresh);
      through = reset;
      kept = update;
    } else {
      const Compute y = Widen(unit.hidden);
      slopes[0] = R::kCell == kRelu ? Compute(y > 0 ? 1 : 0) : 1 - y * y;
    }
  }

  // Writes the gradients of the gates (recurrent_backward of program.proto). `grad` is the gradient of hidden; `state`
  // that of an LSTM's cell, and becomes that of the cell before; or becomes what a GRU adds to the gradient of hidden
  // before.
  __device__ void Apply(Compute grad, Compute& state, Compute (&sums)[4]) const {
    if constexpr (R::kCell == kLstm) {
      const Compute grad_cell = state + grad * through;
#pragma unroll
      for (int k = 0; k < 4; ++k) sums[k] = (k == 3 ? grad : grad_cell) * slopes[k];
      state = grad_cell * kept;
    } else if constexpr (R::kCell == kGru) {
      const Compute grad_fresh = grad * slopes[2];
      sums[0] = grad_fresh * slopes[0];
      sums[1] = grad * slopes[1];
      sums[2] = grad_fresh;
      sums[3] = grad_fresh * through;
      state = grad * kept;
    } else if constexpr (R::kCell == kRelu) {
      sums[0] = slopes[0] != 0 ? grad : Compute(0);
    } else {
      sums[0] = grad * slopes[0];
    }
  }
};

}  // namespace cotan::recurrent
