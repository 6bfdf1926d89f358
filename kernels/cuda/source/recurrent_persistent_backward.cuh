// SPDX-License-Identifier: Apache-2.0

// The backward of recurrent layers with persistent weights. R: recurrent_backward.cuh and recurrent_persistent.cuh,
// with kWeightRow and kWeightColumn, the strides of the weights.
#pragma once

#include "cotan/recurrent_backward.cuh"
#include "cotan/recurrent_cells.cuh"
#include "cotan/recurrent_persistent.cuh"

namespace cotan::recurrent {

// A thread's items of the backward, from the last step to the first.
template <typename R>
struct BackwardThread {
  using W = Persistent<R>;
  using Element = typename R::Element;
  using Compute = typename W::Compute;
  using Items = ThreadItems<R>;
  static constexpr int kMine = W::kThreadItems;

  const BackwardOperands<Element>& o;
  const Items items;
  // Of the step that is loaded next.
  const Element *grad_hidden, *gates, *hidden, *cell;
  // Of the step that is stored next.
  Element* grad_gates;

  __device__ explicit BackwardThread(const BackwardOperands<Element>& operands) : o(operands) {
    const int64 t = StepAt<R>(R::kSteps - 1);
    grad_hidden = items.template At<typename R::GradHidden>(o.grad_hidden, t);
    gates = items.template At<typename R::Gates>(o.gates, t);
    hidden = items.template At<typename R::Hidden>(o.hidden, t);
    cell = items.template At<typename R::Cell>(o.cell, t);
    grad_gates = items.template At<typename R::GradGates>(o.grad_gates, t);
  }

  // Loads what the i-th step reads.
  __device__ void Load(int i, SavedUnit<Element> (&saved)[kMine]) {
#pragma unroll
    for (int m = 0; m < kMine; ++m) {
      if (!items.Has(m)) continue;
      SavedUnit<Element>& to = saved[m];
      to.grad_hidden = grad_hidden[Items::template Offset<typename R::GradHidden>(m)];
      if constexpr (kSavesGates<R>) {
#pragma unroll
        for (int k = 0; k < 4; ++k) to.gates[k] = gates[Items::template Offset<typename R::Gates>(m, k)];
      }
      const int64 row = items.Row(m), unit = items.Unit(m);
      if constexpr (R::kCell == kLstm) {
        const Element* const at = cell + Items::template Offset<typename R::Cell>(m);
        to.cell = at[0];
        to.before = *(i == 0 ? o.c0 + R::C0::Offset(0, row, unit) : at - kNextStep<R, typename R::Cell>);
      } else {
        const Element* const at = hidden + Items::template Offset<typename R::Hidden>(m);
        if constexpr (R::kCell == kGru) {
          to.before = *(i == 0 ? o.h0 + R::H0::Offset(0, row, unit) : at - kNextStep<R, typename R::Hidden>);
        } else {
          to.hidden = at[0];
        }
      }
    }
    grad_hidden -= kNextStep<R, typename R::GradHidden>;
    gates -= kNextStep<R, typename R::Gates>;
    hidden -= kNextStep<R, typename R::Hidden>;
    cell -= kNextStep<R, typename R::Cell>;
  }

  // Stores the gradients of the m-th item, each lane some of them, also to `factors`.
  __device__ void Store(int m, const Compute (&sums)[4], Compute* factors) const {
    const int lane = W::ItemLane();
#pragma unroll
    for (int k = 0; k < kGradients<R>; ++k) {
      if (lane != k % W::kItemLanes || !items.Has(m)) continue;
      const int product = ProductOf<R>(k);
      if (product >= 0) factors[items.Factor(m, product)] = sums[k];
      Narrow(sums[k], grad_gates[Items::template Offset<typename R::GradGates>(m, k)]);
    }
  }

  __device__ void NextStep() { grad_gates -= kNextStep<R, typename R::GradGates>; }
};

// The kernel. The operands' weights are not packed.
template <typename R>
__device__ inline void PersistentBackward(const BackwardOperands<typename R::Element>& o) {
  using W = Persistent<R>;
  using Thread = BackwardThread<R>;
  using Compute = typename W::Compute;
  constexpr int kMine = Thread::kMine;
  W weights;
  weights.template Load<R::kWeightColumn, R::kWeightRow>(o.weights);
  W::ClearFactors();
  __syncthreads();
  Thread thread(o);
  Compute states[kMine] = {}, totals[kMine][1] = {};
  SavedUnit<typename R::Element> saved[kMine] = {};
  CellSlopes<R, Compute> slopes[kMine];
  if (R::kSteps > 0) thread.Load(R::kSteps - 1, saved);
  // Lanes with the same items have read the gates before one of them stores their gradients.
  __syncwarp();
#pragma unroll
  for (int m = 0; m < kMine; ++m) {
    slopes[m] = CellSlopes<R, Compute>(saved[m]);
    if (R::kCell != kLstm || !thread.items.Has(m)) continue;
    states[m] = R::GradLastCell::Load(o.grad_last_cell, 0, thread.items.Row(m), thread.items.Unit(m));
  }
#pragma unroll 1
  for (int i = static_cast<int>(R::kSteps); i-- > 0;) {
    Compute* const buffer = W::Factors() + i % 2 * (R::kEntries * W::kPaddedDepth);
    weights.ReadEarly();
#pragma unroll
    for (int m = 0; m < kMine; ++m) {
      Compute grad = slopes[m].grad_hidden;
      if (i + 1 < R::kSteps) grad = (R::kCell == kGru ? states[m] + totals[m][0] : totals[m][0]) + grad;
      Compute gradients[4];
      slopes[m].Apply(grad, states[m], gradients);
      thread.Store(m, gradients, buffer);
    }
    thread.NextStep();
    if (i > 0) thread.Load(i - 1, saved);
    __syncthreads();
    Compute sums[R::kEntries][W::kRows];
    weights.Multiply(buffer, sums);
#pragma unroll
    for (int m = 0; m < kMine; ++m) slopes[m] = CellSlopes<R, Compute>(saved[m]);
    W::Exchange(sums, totals);
  }
#pragma unroll
  for (int m = 0; m < kMine; ++m) {
    if (!thread.items.Has(m) || W::ItemLane() != 0) continue;
    const int64 row = thread.items.Row(m), unit = thread.items.Unit(m);
    R::GradH0::Store(R::kCell == kGru ? states[m] + totals[m][0] : totals[m][0], o.grad_h0, 0, row, unit);
    if constexpr (R::kCell == kLstm) R::GradC0::Store(states[m], o.grad_c0, 0, row, unit);
  }
}

}  // namespace cotan::recurrent
