// SPDX-License-Identifier: Apache-2.0

// The forward of recurrent layers. R (recurrent.cuh) has the sequences Projected, H0, C0, Bias, Hidden, Cell, Gates.
#pragma once

#include "cotan/recurrent.cuh"

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
  constexpr int kGates = R::kCell == kLstm ? 4 : R::kCell == kGru ? 3 : 1;
  Compute x[kGates], h[kGates];
#pragma unroll
  for (int k = 0; k < kGates; ++k) {
    x[k] = R::Projected::Load(o.projected, t, n, k * R::kHidden + j);
    h[k] = Total<R>(memory.sums, k * R::kHidden + j, b);
    if (R::kCell == kGru && o.bias != nullptr) h[k] += R::Bias::Load(o.bias, 0, 0, k * R::kHidden + j);
  }
  Compute& hidden = memory.hidden[j * R::kEntries + b];
  if constexpr (R::kCell == kTanh) {
    hidden = Tanh(x[0] + h[0]);
  } else if constexpr (R::kCell == kRelu) {
    hidden = Relu(x[0] + h[0]);
  } else {
    Compute saved[4];
    saved[0] = Logistic(x[0] + h[0]);
    saved[1] = Logistic(x[1] + h[1]);
    if constexpr (R::kCell == kLstm) {
      saved[2] = Tanh(x[2] + h[2]);
      saved[3] = Logistic(x[3] + h[3]);
      Compute& cell = memory.cell[j * R::kEntries + b];
      cell = saved[1] * cell + saved[0] * saved[2];
      R::Cell::Store(cell, o.cell, t, n, j);
      hidden = saved[3] * Tanh(cell);
    } else {
      saved[2] = Tanh(x[2] + saved[0] * h[2]);
      saved[3] = h[2];
      hidden = saved[2] + saved[1] * (hidden - saved[2]);
    }
    if (o.gates != nullptr) {
#pragma unroll
      for (int k = 0; k < 4; ++k) R::Gates::Store(saved[k], o.gates, t, n, k * R::kHidden + j);
    }
  }
  R::Hidden::Store(hidden, o.hidden, t, n, j);
}

// The kernel. `scratch`: see BlockMemory().
template <typename R>
__device__ inline void Forward(const ForwardOperands<typename R::Element>& o,
                               typename ComputeOf<typename R::Element>::Type* scratch) {
  using Compute = typename ComputeOf<typename R::Element>::Type;
  constexpr int64 kUnits = int64{R::kHidden} * R::kEntries;
  constexpr bool kHasCell = R::kCell == kLstm;
  constexpr int kGates = R::kCell == kLstm ? 4 : R::kCell == kGru ? 3 : 1;
  Compute* const block = BlockMemory<R>(scratch);
  const ForwardMemory<Compute> memory = {block, block + kUnits, block + (kHasCell ? 2 : 1) * kUnits};
  const typename R::Element* const weights = BlockWeights<R>(o.weights);
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
    Multiply<R>(weights, memory.hidden, memory.sums);
    __syncthreads();
    ForEachUnit<R>([&](int64 j, int b, int64 n) {
      ForwardUnit<R>(o, memory, t, j, b, n);
      if (i + 1 < R::kSteps) {
#pragma unroll
        for (int k = 0; k < kGates; ++k) {
          R::Projected::Prefetch(o.projected, StepAt<R>(i + 1), n, k * R::kHidden + j);
        }
      }
    });
    __syncthreads();
  }
}

}  // namespace cotan::recurrent
