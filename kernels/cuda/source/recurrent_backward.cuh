// SPDX-License-Identifier: Apache-2.0

// The backward of recurrent layers. R (recurrent.cuh) has the sequences GradHidden, Hidden, H0, Gates, Cell, C0,
// GradLastCell, GradGates, GradH0, GradC0.
#pragma once

#include "cotan/recurrent.cuh"
#include "cotan/recurrent_cells.cuh"

namespace cotan::recurrent {

// The operands; those that the layer does not have are null. `grad_gates` may be `gates`: a step's gates are read
// before their gradients are stored.
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
  Element* grad_gates;
  Element* grad_h0;
  Element* grad_c0;
};

// Of a block, [kHidden, kEntries] each: the gradients of the state of an LSTM's cell; what a GRU adds to the product
// of the slopes with the weights. `slopes`, [gates * kHidden, kEntries]: the gradients of the hidden products.
template <typename Compute>
struct BackwardMemory {
  Compute* state;  // of either
  Compute* slopes;
  Compute* sums;
};

// Loads what the i-th step reads of unit j of batch entry n.
template <typename R>
__device__ inline void LoadSaved(const BackwardOperands<typename R::Element>& o, int64 i, int64 n, int64 j,
                                 SavedUnit<typename R::Element>& to) {
  const int64 t = StepAt<R>(i);
  to.grad_hidden = o.grad_hidden[R::GradHidden::Offset(t, n, j)];
  if constexpr (kSavesGates<R>) {
#pragma unroll
    for (int k = 0; k < 4; ++k) to.gates[k] = o.gates[R::Gates::Offset(t, n, k * R::kHidden + j)];
  }
  if constexpr (R::kCell == kLstm) {
    to.cell = o.cell[R::Cell::Offset(t, n, j)];
    to.before = i == 0 ? o.c0[R::C0::Offset(0, n, j)] : o.cell[R::Cell::Offset(StepAt<R>(i - 1), n, j)];
  } else if constexpr (R::kCell == kGru) {
    to.before = i == 0 ? o.h0[R::H0::Offset(0, n, j)] : o.hidden[R::Hidden::Offset(StepAt<R>(i - 1), n, j)];
  } else {
    to.hidden = o.hidden[R::Hidden::Offset(t, n, j)];
  }
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

  __device__ Compute& State() const { return memory.state[j * R::kEntries + b]; }

  // Returns the gradient of the state from the steps that are done.
  __device__ Compute FromLater() const {
    const Compute product = Total<R>(memory.sums, j, b);
    return R::kCell == kGru ? State() + product : product;
  }

  // Brings the operands of the step before closer.
  __device__ void Prefetch() const {
    if (i == 0) return;
    const int64 next = StepAt<R>(i - 1);
    R::GradHidden::Prefetch(o.grad_hidden, next, n, j);
    if constexpr (kSavesGates<R>) {
#pragma unroll
      for (int k = 0; k < 4; ++k) R::Gates::Prefetch(o.gates, next, n, k * R::kHidden + j);
    } else {
      R::Hidden::Prefetch(o.hidden, next, n, j);
    }
  }

  __device__ void Run() const {
    SavedUnit<Element> saved = {};
    LoadSaved<R>(o, i, n, j, saved);
    const CellSlopes<R, Compute> slopes(saved);
    Compute grad = slopes.grad_hidden;
    if (i + 1 < R::kSteps) grad = FromLater() + grad;
    Compute state = kSavesGates<R> ? State() : Compute(0), sums[4];
    slopes.Apply(grad, state, sums);
    if constexpr (kSavesGates<R>) State() = state;
#pragma unroll
    for (int k = 0; k < kGradients<R>; ++k) {
      R::GradGates::Store(sums[k], o.grad_gates, t, n, k * R::kHidden + j);
      const int product = ProductOf<R>(k);
      if (product >= 0) memory.slopes[(product * R::kHidden + j) * R::kEntries + b] = sums[k];
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
  constexpr bool kHasState = kSavesGates<R>;
  Compute* const block = BlockMemory<R>(scratch);
  const BackwardMemory<Compute> memory = {block + kSlopes, block, block + kSlopes + (kHasState ? kUnits : 0)};
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
    Multiply<R>(o.weights, memory.slopes, memory.sums);
    __syncthreads();
  }
  ForEachUnit<R>([&](int64 j, int b, int64 n) {
    const Unit unit = {o, memory, 0, 0, j, b, n};
    R::GradH0::Store(R::kSteps > 0 ? unit.FromLater() : Compute(0), o.grad_h0, 0, n, j);
    if constexpr (R::kCell == kLstm) R::GradC0::Store(unit.State(), o.grad_c0, 0, n, j);
  });
}

}  // namespace cotan::recurrent
