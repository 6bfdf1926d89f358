// SPDX-License-Identifier: Apache-2.0

// The forward of recurrent layers with persistent weights. R: recurrent_forward.cuh and recurrent_persistent.cuh, with
// kWeightRow and kWeightColumn, the strides of the weights.
#pragma once

#include "cotan/recurrent_cells.cuh"
#include "cotan/recurrent_forward.cuh"
#include "cotan/recurrent_persistent.cuh"

namespace cotan::recurrent {

// A thread's rows of an item: of an LSTM or GRU that two lanes share, the first one has the input and cell gate, or the
// reset and new gate; the other one the forget and output gate, or the update gate.
template <typename R>
struct ForwardThread {
  using W = Persistent<R>;
  using Element = typename R::Element;
  using Compute = typename W::Compute;
  using Items = ThreadItems<R>;
  static constexpr int kRows = W::kThreadRows;
  static constexpr int kMine = W::kThreadItems;
  static constexpr bool kShares = W::kRowLanes == 2;

  const ForwardOperands<Element>& o;
  const Items items;
  const int lane = W::RowLane();
  const bool stores = W::ItemLane() < W::kRowLanes;
  const Element* projected;  // of the step after the next
  Element *hidden, *cell, *gates;

  __device__ explicit ForwardThread(const ForwardOperands<Element>& operands) : o(operands) {
    const int64 t = StepAt<R>(0);
    projected = items.template At<typename R::Projected>(o.projected, t, lane);
    hidden = items.template At<typename R::Hidden>(o.hidden, t);
    cell = items.template At<typename R::Cell>(o.cell, t);
    gates = items.template At<typename R::Gates>(o.gates, t, lane);
  }

  // Returns the gate of the thread's k-th row, less its lane.
  __device__ static constexpr int Gate0(int k) { return kShares ? 2 * k : k; }
  // The new gate of a GRU belongs to the first lane.
  __device__ bool HasRow(int k) const { return !(kShares && R::kCell == kGru && k == 1 && lane == 1); }

  __device__ void LoadStates(State<Compute> (&states)[kMine], Compute (&bias)[kMine][kRows]) const {
#pragma unroll
    for (int m = 0; m < kMine; ++m) {
      if (!items.Has(m)) continue;
      const int64 row = items.Row(m), unit = items.Unit(m);
      states[m].hidden = R::H0::Load(o.h0, 0, row, unit);
      if constexpr (R::kCell == kLstm) states[m].cell = R::C0::Load(o.c0, 0, row, unit);
      if (R::kCell != kGru || o.bias == nullptr) continue;
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        if (HasRow(k)) bias[m][k] = R::Bias::Load(o.bias, 0, 0, (Gate0(k) + lane) * R::kHidden + unit);
      }
    }
  }

  // Loads the projected inputs of the next step.
  __device__ void LoadNext(Element (&next)[kMine][kRows]) {
#pragma unroll
    for (int m = 0; m < kMine; ++m) {
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        if (items.Has(m) && HasRow(k)) {
          next[m][k] = projected[Items::template Offset<typename R::Projected>(m, Gate0(k))];
        }
      }
    }
    projected += kNextStep<R, typename R::Projected>;
  }

  // Replaces the m-th state; its new values are right in the lane that stores them. All lanes of a warp call it.
  __device__ void Step(int m, const Compute (&x)[kRows], const Compute (&h)[kRows], State<Compute>& state) const {
    Compute saved[4];
    if constexpr (!kShares) {
      ForwardCell<R>(x, h, state, saved);
      if constexpr (kSavesGates<R>) {
#pragma unroll
        for (int k = 0; k < 4; ++k) StoreGate(m, k, saved[k]);
      }
    } else if constexpr (R::kCell == kLstm) {
      saved[0] = Gate(x[0] + h[0], false);
      saved[1] = Gate(x[1] + h[1], lane == 0);
      // Of the second lane: what the first one adds to the cell.
      const Compute fresh = __shfl_xor_sync(0xffffffffu, saved[0] * saved[1], 1);
      state.cell = saved[0] * state.cell + fresh;
      state.hidden = saved[1] * Gate(state.cell, true);
      StoreGate(m, 0, saved[0]);
      StoreGate(m, 2, saved[1]);
    } else {
      saved[0] = Gate(x[0] + h[0], false);
      const Compute update = __shfl_xor_sync(0xffffffffu, saved[0], 1);
      const Compute fresh = Gate(x[1] + saved[0] * h[1], true);
      state.hidden = fresh + update * (state.hidden - fresh);
      StoreGate(m, 0, saved[0]);
      if (lane == 0) {
        StoreGate(m, 2, fresh);
        StoreGate(m, 3, h[1]);
      }
    }
  }

  __device__ void StoreGate(int m, int gate, Compute value) const {
    if (o.gates == nullptr || !stores || !items.Has(m)) return;
    Narrow(value, gates[Items::template Offset<typename R::Gates>(m, gate)]);
  }

  // Stores the m-th state for the next step, to `factors`, and as results.
  __device__ void StoreState(int m, const State<Compute>& state, Compute* factors) const {
    constexpr int kOwner = R::kCell == kLstm && kShares ? 1 : 0;
    if (!stores || lane != kOwner || !items.Has(m)) return;
    factors[items.Factor(m)] = state.hidden;
    Narrow(state.hidden, hidden[Items::template Offset<typename R::Hidden>(m)]);
    if constexpr (R::kCell == kLstm) Narrow(state.cell, cell[Items::template Offset<typename R::Cell>(m)]);
  }

  __device__ void NextStep() {
    hidden += kNextStep<R, typename R::Hidden>;
    cell += kNextStep<R, typename R::Cell>;
    gates += kNextStep<R, typename R::Gates>;
  }
};

// The kernel. The operands' weights are not packed.
template <typename R>
__device__ inline void PersistentForward(const ForwardOperands<typename R::Element>& o) {
  using W = Persistent<R>;
  using Thread = ForwardThread<R>;
  using Compute = typename W::Compute;
  constexpr int kMine = Thread::kMine, kRows = Thread::kRows;
  W weights;
  weights.template Load<R::kWeightRow, R::kWeightColumn>(o.weights);
  W::ClearFactors();
  __syncthreads();
  Thread thread(o);
  State<Compute> states[kMine] = {};
  Compute bias[kMine][kRows] = {};
  typename R::Element next[kMine][kRows] = {};
  thread.LoadStates(states, bias);
  thread.LoadNext(next);
#pragma unroll
  for (int m = 0; m < kMine; ++m) {
    if (W::ItemLane() == 0 && thread.items.Has(m)) W::Factors()[thread.items.Factor(m)] = states[m].hidden;
  }
  weights.ReadEarly();
  __syncthreads();
#pragma unroll 1
  for (int i = 0; i < static_cast<int>(R::kSteps); ++i) {
    Compute sums[R::kEntries][W::kRows], totals[kMine][kRows];
    weights.Multiply(W::Factors() + i % 2 * (R::kEntries * W::kPaddedDepth), sums);
    W::Exchange(sums, totals);
    Compute x[kMine][kRows];
#pragma unroll
    for (int m = 0; m < kMine; ++m) {
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        x[m][k] = Widen(next[m][k]);
        if (R::kCell == kGru && o.bias != nullptr) totals[m][k] += bias[m][k];
      }
    }
    if (i + 1 < R::kSteps) thread.LoadNext(next);
    weights.ReadEarly();
#pragma unroll
    for (int m = 0; m < kMine; ++m) {
      thread.Step(m, x[m], totals[m], states[m]);
      thread.StoreState(m, states[m], W::Factors() + (i + 1) % 2 * (R::kEntries * W::kPaddedDepth));
    }
    thread.NextStep();
    __syncthreads();
  }
}

}  // namespace cotan::recurrent
