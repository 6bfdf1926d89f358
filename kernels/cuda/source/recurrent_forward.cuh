// SPDX-License-Identifier: Apache-2.0

// The forward of recurrent layers. R (recurrent.cuh) has the sequences Projected, H0, C0, Bias, Hidden, Cell, Gates.
#pragma once

#include "cotan/recurrent.cuh"
#include "cotan/recurrent_cells.cuh"

namespace cotan::recurrent {

// The operands; those that the layer does not have are null.
template <typename Element>
struct ForwardOperands {
  const Element* projected;
  const Element* weights;  // packed
  const Element* h0;
  const Element* c0;
  const Element* bias;
  Element* hidden;
  Element* cell;
  Element* gates;
};

// The states and products of a block: hidden and cell [kHidden, kEntries].
template <typename Compute>
struct ForwardMemory {
  Compute* hidden;
  Compute* cell;
  Compute* sums;
};

// Computes unit j of entry n at step t, from the products with the state before.
template <typename R>
__device__ inline void ForwardUnit(const ForwardOperands<typename R::Element>& o,
                                   const ForwardMemory<typename ComputeOf<typename R::Element>::Type>& memory, int64 t,
                                   int64 j, int b, int64 n) {
  using Compute = typename ComputeOf<typename R::Element>::Type;
  constexpr int kGates = kGatesOf<R>;
  Compute x[kGates], h[kGates], saved[4];
#pragma unroll
  for (int k = 0; k < kGates; ++k) {
    x[k] = R::Projected::Load(o.projected, t, n, k * R::kHidden + j);
    h[k] = Total<R>(memory.sums, k * R::kHidden + j, b);
    if (R::kCell == kGru && o.bias != nullptr) h[k] += R::Bias::Load(o.bias, 0, 0, k * R::kHidden + j);
  }
  State<Compute> state = {memory.hidden[j * R::kEntries + b]};
  if constexpr (R::kCell == kLstm) state.cell = memory.cell[j * R::kEntries + b];
  ForwardCell<R>(x, h, state, saved);
  memory.hidden[j * R::kEntries + b] = state.hidden;
  if constexpr (R::kCell == kLstm) {
    memory.cell[j * R::kEntries + b] = state.cell;
    R::Cell::Store(state.cell, o.cell, t, n, j);
  }
  if (kSavesGates<R> && o.gates != nullptr) {
#pragma unroll
    for (int k = 0; k < 4; ++k) R::Gates::Store(saved[k], o.gates, t, n, k * R::kHidden + j);
  }
  R::Hidden::Store(state.hidden, o.hidden, t, n, j);
}

// The kernel. `scratch`: see BlockMemory().
template <typename R>
__device__ inline void Forward(const ForwardOperands<typename R::Element>& o,
                               typename ComputeOf<typename R::Element>::Type* scratch) {
  using Compute = typename ComputeOf<typename R::Element>::Type;
  constexpr int64 kUnits = int64{R::kHidden} * R::kEntries;
  constexpr bool kHasCell = R::kCell == kLstm;
  Compute* const block = BlockMemory<R>(scratch);
  const ForwardMemory<Compute> memory = {block, block + kUnits, block + (kHasCell ? 2 : 1) * kUnits};
  for (int64 item = threadIdx.x; item < kUnits; item += R::kThreads) memory.hidden[item] = 0;
  __syncthreads();
  ForEachUnit<R>([&](int64 j, int b, int64 n) {
    memory.hidden[j * R::kEntries + b] = R::H0::Load(o.h0, 0, n, j);
    if constexpr (kHasCell) memory.cell[j * R::kEntries + b] = R::C0::Load(o.c0, 0, n, j);
  });
  __syncthreads();
#pragma unroll 1
  for (int64 i = 0; i < R::kSteps; ++i) {
    const int64 t = StepAt<R>(i);
    Multiply<R>(o.weights, memory.hidden, memory.sums);
    __syncthreads();
    ForEachUnit<R>([&](int64 j, int b, int64 n) {
      ForwardUnit<R>(o, memory, t, j, b, n);
      if (i + 1 < R::kSteps) {
#pragma unroll
        for (int k = 0; k < kGatesOf<R>; ++k) {
          R::Projected::Prefetch(o.projected, StepAt<R>(i + 1), n, k * R::kHidden + j);
        }
      }
    });
    __syncthreads();
  }
}

}  // namespace cotan::recurrent
