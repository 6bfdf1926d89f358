// SPDX-License-Identifier: Apache-2.0

// The backward of recurrent layers. R (recurrent.cuh) has the sequences GradHidden, Hidden, H0, Gates, Cell, C0,
// GradLastCell, GradProjected, GradH0, GradC0, GradProducts.
#pragma once

#include "cotan/recurrent.cuh"

namespace cotan::recurrent {

// The operands; those that the layer does not have are null.
template <typename Element>
struct BackwardOperands {
  const Element* grad_hidden;
  const Element* hidden;
  const Element* weights;  // packed
  const Element* h0;
  const Element* gates;
  const Element* cell;
  const Element* c0;
  const Element* grad_last_cell;
  Element* grad_projected;
  Element* grad_h0;
  Element* grad_c0;
  Element* grad_products;
};

// Of a block, [kHidden, kEntries] each: the gradients of the state of an LSTM's cell; what a GRU adds to the product
// of the slopes with the weights. `slopes`, [gates * kHidden, kEntries]: the gradients of the hidden products.
template <typename Compute>
struct BackwardMemory {
  Compute* state;  // of either
  Compute* slopes;
  Compute* sums;
};

// Of the unit of an LSTM or GRU: saved values.
template <typename Compute>
struct Saved {
  Compute gates[4];
  Compute before;  // the state before the step: hidden of a GRU, cell of an LSTM
};

// Returns the state before the i-th step.
template <typename R, typename States, typename First>
__device__ inline typename ComputeOf<typename R::Element>::Type StateBefore(const typename R::Element* states,
                                                                            const typename R::Element* first, int64 i,
                                                                            int64 n, int64 j) {
  return i == 0 ? First::Load(first, 0, n, j) : States::Load(states, StepAt<R>(i - 1), n, j);
}

template <typename R>
struct BackwardUnit {
  using Element = typename R::Element;
  using Compute = typename ComputeOf<Element>::Type;

  const BackwardOperands<Element>& o;
  const BackwardMemory<Compute>& memory;
  int64 i, t, j;
  int b;
  int64 n;

  // Stores the gradients of gate k, after the projection and of the hidden product.
  __device__ void Store(int k, Compute projected, Compute product) const {
    const int64 column = k * R::kHidden + j;
    R::GradProjected::Store(projected, o.grad_projected, t, n, column);
    if constexpr (R::kCell == kGru) R::GradProducts::Store(product, o.grad_products, t, n, column);
    memory.slopes[column * R::kEntries + b] = product;
  }

  __device__ Compute& State() const { return memory.state[j * R::kEntries + b]; }

  // Returns the gradient of the state from the steps that are done.
  __device__ Compute FromLater() const {
    const Compute product = Total<R>(memory.sums, j, b);
    return R::kCell == kGru ? State() + product : product;
  }

  __device__ void Simple(Compute grad) const {
    const Compute y = R::Hidden::Load(o.hidden, t, n, j);
    Compute slope = grad * (1 - y * y);
    if (R::kCell == kRelu) slope = y > 0 ? grad : Compute(0);
    Store(0, slope, slope);
  }

  __device__ void Lstm(Compute grad, const Saved<Compute>& saved) const {
    const Compute in = saved.gates[0], forget = saved.gates[1], fresh = saved.gates[2], out = saved.gates[3];
    const Compute cell = Tanh(R::Cell::Load(o.cell, t, n, j));
    const Compute grad_cell = State() + grad * out * (1 - cell * cell);
    const Compute slopes[4] = {grad_cell * fresh * in * (1 - in), grad_cell * saved.before * forget * (1 - forget),
                               grad_cell * in * (1 - fresh * fresh), grad * cell * out * (1 - out)};
#pragma unroll
    for (int k = 0; k < 4; ++k) Store(k, slopes[k], slopes[k]);
    State() = grad_cell * forget;
  }

  __device__ void Gru(Compute grad, const Saved<Compute>& saved) const {
    const Compute reset = saved.gates[0], update = saved.gates[1], fresh = saved.gates[2], product = saved.gates[3];
    const Compute grad_update = grad * (saved.before - fresh) * update * (1 - update);
    const Compute grad_fresh = grad * (1 - update) * (1 - fresh * fresh);
    const Compute grad_reset = grad_fresh * product * reset * (1 - reset);
    Store(0, grad_reset, grad_reset);
    Store(1, grad_update, grad_update);
    Store(2, grad_fresh, grad_fresh * reset);
    State() = grad * update;
  }

  // Brings the operands of the step before closer.
  __device__ void Prefetch() const {
    if (i == 0) return;
    const int64 next = StepAt<R>(i - 1);
    R::GradHidden::Prefetch(o.grad_hidden, next, n, j);
    if constexpr (R::kCell == kLstm || R::kCell == kGru) {
#pragma unroll
      for (int k = 0; k < 4; ++k) R::Gates::Prefetch(o.gates, next, n, k * R::kHidden + j);
    } else {
      R::Hidden::Prefetch(o.hidden, next, n, j);
    }
  }

  __device__ void Run() const {
    Compute grad = R::GradHidden::Load(o.grad_hidden, t, n, j);
    if (i + 1 < R::kSteps) grad = FromLater() + grad;
    if constexpr (R::kCell == kTanh || R::kCell == kRelu) {
      Simple(grad);
    } else {
      Saved<Compute> saved;
#pragma unroll
      for (int k = 0; k < 4; ++k) saved.gates[k] = R::Gates::Load(o.gates, t, n, k * R::kHidden + j);
      if constexpr (R::kCell == kLstm) {
        saved.before = StateBefore<R, typename R::Cell, typename R::C0>(o.cell, o.c0, i, n, j);
        Lstm(grad, saved);
      } else {
        saved.before = StateBefore<R, typename R::Hidden, typename R::H0>(o.hidden, o.h0, i, n, j);
        Gru(grad, saved);
      }
    }
    Prefetch();
  }
};

// The kernel. `scratch`: see BlockMemory().
template <typename R>
__device__ inline void Backward(const BackwardOperands<typename R::Element>& o,
                                typename ComputeOf<typename R::Element>::Type* scratch) {
  using Compute = typename ComputeOf<typename R::Element>::Type;
  using Unit = BackwardUnit<R>;
  constexpr int64 kUnits = int64{R::kHidden} * R::kEntries;
  constexpr int64 kSlopes = R::Product::kDepth * R::kEntries;
  constexpr bool kHasState = R::kCell == kLstm || R::kCell == kGru;
  Compute* const block = BlockMemory<R>(scratch);
  const BackwardMemory<Compute> memory = {block + kSlopes, block, block + kSlopes + (kHasState ? kUnits : 0)};
  const typename R::Element* const weights = BlockWeights<R>(o.weights);
  for (int64 item = threadIdx.x; item < kSlopes; item += R::kThreads) memory.slopes[item] = 0;
  __syncthreads();
  if constexpr (R::kCell == kLstm) {
    ForEachUnit<R>([&](int64 j, int b, int64 n) {
      memory.state[j * R::kEntries + b] = R::GradLastCell::Load(o.grad_last_cell, 0, n, j);
    });
  }
#pragma unroll 1
  for (int64 i = R::kSteps; i-- > 0;) {
    ForEachUnit<R>([&](int64 j, int b, int64 n) { Unit{o, memory, i, StepAt<R>(i), j, b, n}.Run(); });
    __syncthreads();
    Multiply<R>(weights, memory.slopes, memory.sums);
    __syncthreads();
  }
  ForEachUnit<R>([&](int64 j, int b, int64 n) {
    const Unit unit = {o, memory, 0, 0, j, b, n};
    R::GradH0::Store(R::kSteps > 0 ? unit.FromLater() : Compute(0), o.grad_h0, 0, n, j);
    if constexpr (R::kCell == kLstm) R::GradC0::Store(unit.State(), o.grad_c0, 0, n, j);
  });
}

}  // namespace cotan::recurrent
