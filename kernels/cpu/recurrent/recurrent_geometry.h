// SPDX-License-Identifier: Apache-2.0

// Sizes and operands of a recurrent layer.
#ifndef COTAN_KERNELS_CPU_RECURRENT_RECURRENT_GEOMETRY_H_
#define COTAN_KERNELS_CPU_RECURRENT_RECURRENT_GEOMETRY_H_

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/layout.h"
#include "kernels/api/kernel.h"
#include "kernels/cpu/simd/gemm_core.h"
#include "kernels/cpu/threading/parallel.h"
#include "serialization/schema/program.pb.h"

namespace cotan::cpu::recurrent {

using Cell = serialization::Recurrent::Cell;
inline constexpr Cell kTanh = serialization::Recurrent::RNN_TANH;
inline constexpr Cell kRelu = serialization::Recurrent::RNN_RELU;
inline constexpr Cell kLstm = serialization::Recurrent::LSTM;
inline constexpr Cell kGru = serialization::Recurrent::GRU;

// Returns the number of gates, the rows of H of the weight.
constexpr int64_t GatesOf(Cell cell) { return cell == kLstm ? 4 : cell == kGru ? 3 : 1; }

// The sizes of a layer, and how its batch is divided among threads.
struct Geometry {
  int64_t steps = 0;
  int64_t batch = 0;
  int64_t hidden = 0;
  bool reverse = false;
  int threads = 1;
  int64_t chunk = 1;  // batch rows per call of a thread

  Geometry(const serialization::Recurrent& op, const TensorSpec& sequence, int max_threads)
      : steps(sequence.layout.sizes[0]),
        batch(sequence.layout.sizes[1]),
        hidden(sequence.layout.sizes[2]),
        reverse(op.reverse()) {
    const double flops = 2.0 * static_cast<double>(GatesOf(op.cell()) * hidden) * static_cast<double>(hidden) *
                         static_cast<double>(batch) * static_cast<double>(steps);
    threads = ThreadsWorthwhile(max_threads, flops);
    chunk = std::max<int64_t>(1, (batch + threads - 1) / threads);
  }

  // Returns the time step that is computed as the `i`-th.
  int64_t Step(int64_t i) const { return reverse ? steps - 1 - i : i; }
};

// A [T, N, features] or [N, features] operand with dense rows; strides in elements.
struct Rows {
  int64_t step = 0;
  int64_t row = 0;
};

inline Rows RowsOf(const TensorSpec& spec) {
  const DimVector& strides = spec.layout.strides;
  return strides.size() == 3 ? Rows{strides[0], strides[1]} : Rows{0, strides[0]};
}

// An operand by time step and batch row.
template <typename T>
struct Sequence {
  T* data = nullptr;
  Rows rows;
  T* At(int64_t step, int64_t row) const { return data + step * rows.step + row * rows.row; }
};

// The states before a step, and the index of the step.
template <typename T>
struct RecurrentStep {
  Sequence<const T> hidden, cell;
  int64_t before = 0;
  int64_t step = 0;
};

// Loads `count` elements, at most a vector; the other elements become 0.
template <typename T>
[[gnu::always_inline]] inline void LoadSome(const T* from, int64_t count, Vector<T>& to) {
  if (count == kVectorSize<T>) return Load(from, to);
  T values[kVectorSize<T>] = {};
  std::memcpy(values, from, static_cast<size_t>(count) * sizeof(T));
  Load(values, to);
}

template <typename T>
[[gnu::always_inline]] inline void StoreSome(const Vector<T>& from, int64_t count, T* to) {
  if (count == kVectorSize<T>) return Store<T>(from, to);
  T values[kVectorSize<T>];
  Store<T>(from, values);
  std::memcpy(to, values, static_cast<size_t>(count) * sizeof(T));
}

}  // namespace cotan::cpu::recurrent

#endif  // COTAN_KERNELS_CPU_RECURRENT_RECURRENT_GEOMETRY_H_
