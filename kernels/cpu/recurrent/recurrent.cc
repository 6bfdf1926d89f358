// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/recurrent/recurrent.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/api/op_check.h"
#include "kernels/cpu/recurrent/dense_rows.h"
#include "kernels/cpu/recurrent/recurrent_geometry.h"
#include "kernels/cpu/recurrent/recurrent_math.h"
#include "kernels/cpu/simd/gemm_core.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/threading/parallel.h"

namespace cotan::cpu {
namespace recurrent {
namespace {

// The two functions below are not inlined: otherwise each kind of cell would have a copy of the code.

// Packs b[k, n] = from[k * row + n * column] for MultiplyRows().
template <typename T>
COTAN_SIMD_VERSIONS void Pack(const T* from, int64_t row, int64_t column, int64_t depth, int64_t columns, T* panels) {
  PackPanels(from, row, column, depth, columns, panels);
}

// Computes to [rows, columns] = rows of `from`, `row` apart, times the packed matrix; adds to `to` if `adds`.
template <typename T>
COTAN_SIMD_VERSIONS void MultiplyRows(const T* from, int64_t row, const T* panels, int64_t rows, int64_t columns,
                                      int64_t depth, T* to, bool adds) {
  MultiplyPacked(from, row, 1, panels, depth, rows, columns, depth, to, columns, adds);
}

// Forward --------------------------------------------------------------------

// The operands of a run; those that the cell does not have, or the program does not use, are null.
template <typename T>
struct Forward {
  Sequence<const T> projected, h0, c0;
  const T* bias = nullptr;  // [3*H], dense
  Sequence<T> hidden, cell, gates;
};

// One batch row in one time step: pointers to the first hidden unit. `products` is the previous state times
// the weights, [G*H].
template <typename T>
struct ForwardRow {
  const T* projected;
  const T* products;
  const T* bias;
  const T* hidden_before;
  const T* cell_before;
  T* hidden;
  T* cell;
  T* gates;
};

template <typename T, Cell kCell>
[[gnu::always_inline]] inline void ForwardUnits(const ForwardRow<T>& r, int64_t size, int64_t at, int64_t count) {
  constexpr int kGates = static_cast<int>(GatesOf(kCell));
  Vector<T> x[kGates], h[kGates];
  for (int k = 0; k < kGates; ++k) {
    LoadSome(r.projected + k * size + at, count, x[k]);
    LoadSome(r.products + k * size + at, count, h[k]);
    if (kCell == kGru && r.bias != nullptr) {
      Vector<T> bias;
      LoadSome(r.bias + k * size + at, count, bias);
      h[k] += bias;
    }
  }
  Vector<T> saved[4];
  if constexpr (kCell == kLstm) {
    for (int k = 0; k < 4; ++k) saved[k] = x[k] + h[k];
    Logistic<T>(saved[0]);
    Logistic<T>(saved[1]);
    Tanh<T>(saved[2]);
    Logistic<T>(saved[3]);
    Vector<T> cell;
    LoadSome(r.cell_before + at, count, cell);
    cell = saved[1] * cell + saved[0] * saved[2];
    StoreSome<T>(cell, count, r.cell + at);
    Tanh<T>(cell);
    StoreSome<T>(saved[3] * cell, count, r.hidden + at);
  } else if constexpr (kCell == kGru) {
    saved[0] = x[0] + h[0];
    saved[1] = x[1] + h[1];
    Logistic<T>(saved[0]);
    Logistic<T>(saved[1]);
    saved[2] = x[2] + saved[0] * h[2];
    Tanh<T>(saved[2]);
    saved[3] = h[2];
    Vector<T> before;
    LoadSome(r.hidden_before + at, count, before);
    StoreSome<T>(saved[2] + saved[1] * (before - saved[2]), count, r.hidden + at);
  } else {
    Vector<T> y = x[0] + h[0];
    if constexpr (kCell == kTanh) {
      Tanh<T>(y);
    } else {
      y = y < Vector<T>{} ? Vector<T>{} : y;  // NaN stays
    }
    StoreSome<T>(y, count, r.hidden + at);
  }
  if constexpr (kCell == kLstm || kCell == kGru) {
    if (r.gates == nullptr) return;
    for (int k = 0; k < 4; ++k) StoreSome<T>(saved[k], count, r.gates + k * size + at);
  }
}

// Computes the gates of rows [first, first + rows) from their `products`, [rows, G*H].
template <typename T, Cell kCell>
COTAN_SIMD_VERSIONS void ForwardGates(const Geometry& g, const Forward<T>& o, const RecurrentStep<T>& s, int64_t first,
                                      int64_t rows, const T* products) {
  for (int64_t n = first; n < first + rows; ++n) {
    const ForwardRow<T> row = {o.projected.At(s.step, n),
                               products + (n - first) * GatesOf(kCell) * g.hidden,
                               o.bias,
                               s.hidden.At(s.before, n),
                               kCell == kLstm ? s.cell.At(s.before, n) : nullptr,
                               o.hidden.At(s.step, n),
                               kCell == kLstm ? o.cell.At(s.step, n) : nullptr,
                               o.gates.data == nullptr ? nullptr : o.gates.At(s.step, n)};
    for (int64_t at = 0; at < g.hidden; at += kVectorSize<T>) {
      ForwardUnits<T, kCell>(row, g.hidden, at, std::min(kVectorSize<T>, g.hidden - at));
    }
  }
}

// Computes all steps of rows [first, first + rows). `products` is scratch, [rows, G*H].
template <typename T, Cell kCell>
void ForwardRows(const Geometry& g, const Forward<T>& o, const T* panels, int64_t first, int64_t rows, T* products) {
  RecurrentStep<T> s = {o.h0, o.c0};
  for (int64_t i = 0; i < g.steps; ++i) {
    s.step = g.Step(i);
    MultiplyRows(s.hidden.At(s.before, first), s.hidden.rows.row, panels, rows, GatesOf(kCell) * g.hidden, g.hidden,
                 products, false);
    ForwardGates<T, kCell>(g, o, s, first, rows, products);
    s = {{o.hidden.data, o.hidden.rows}, {o.cell.data, o.cell.rows}, s.step};
  }
}

template <typename T, Cell kCell>
class RecurrentKernel final : public Kernel {
 public:
  RecurrentKernel(const KernelRequest& request)
      : geometry_(request.op.recurrent(), request.outputs[0], request.threads),
        weight_column_(request.inputs[1].layout.strides[1]),
        has_bias_(kCell == kGru && request.inputs.size() > 3),
        has_gates_(request.outputs.size() > (kCell == kLstm ? 2 : 1)) {
    for (const TensorSpec& spec : request.inputs) {
      inputs_.push_back(spec.layout.rank() > 1 ? RowsOf(spec) : Rows{});
    }
    for (const TensorSpec& spec : request.outputs) outputs_.push_back(RowsOf(spec));
    const int64_t outputs = GatesOf(kCell) * geometry_.hidden;
    packed_ = PackedSize<T>(geometry_.hidden, outputs);
    scratch_bytes_ = static_cast<size_t>(packed_ + geometry_.threads * geometry_.chunk * outputs) * sizeof(T);
  }

  absl::Status Run(const KernelArgs& args) override {
    const auto in = [&](size_t i) { return Sequence<const T>{static_cast<const T*>(args.inputs[i]), inputs_[i]}; };
    const auto out = [&](size_t i) { return Sequence<T>{static_cast<T*>(args.outputs[i]), outputs_[i]}; };
    Forward<T> o;
    o.projected = in(0);
    o.h0 = in(2);
    if (kCell == kLstm) o.c0 = in(3);
    if (has_bias_) o.bias = static_cast<const T*>(args.inputs[3]);
    o.hidden = out(0);
    if (kCell == kLstm) o.cell = out(1);
    if (has_gates_) o.gates = out(kCell == kLstm ? 2 : 1);
    T* const panels = static_cast<T*>(args.scratch);
    const int64_t outputs = GatesOf(kCell) * geometry_.hidden;
    Pack(static_cast<const T*>(args.inputs[1]), weight_column_, inputs_[1].row, geometry_.hidden, outputs, panels);
    ParallelForWorker(geometry_.threads, geometry_.batch, geometry_.chunk, [&](int worker, int64_t begin, int64_t end) {
      T* const products = panels + packed_ + worker * geometry_.chunk * outputs;
      ForwardRows<T, kCell>(geometry_, o, panels, begin, end - begin, products);
    });
    return absl::OkStatus();
  }

 private:
  const Geometry geometry_;
  std::vector<Rows> inputs_, outputs_;
  const int64_t weight_column_;  // stride of its second dimension
  const bool has_bias_, has_gates_;
  int64_t packed_ = 0;  // elements
};

// Backward -------------------------------------------------------------------

template <typename T>
struct Backward {
  Sequence<const T> grad_hidden, hidden, h0, gates, cell, c0, grad_last_cell;
  Sequence<T> grad_gates, grad_h0, grad_c0;
};

// One batch row in one time step. On entry `grad_state` and `grad_cell` are the gradients from the following
// time step, on return those for the preceding one; the product with the weights is added to `grad_state`
// later.
template <typename T>
struct BackwardRow {
  const T* grad_hidden;
  const T* hidden;
  const T* hidden_before;
  const T* gates;
  const T* cell;
  const T* cell_before;
  T* grad_state;
  T* grad_cell;
  T* grad_gates;
};

// `grad_gates` may be `gates`.
template <typename T, Cell kCell>
[[gnu::always_inline]] inline void BackwardUnits(const BackwardRow<T>& r, int64_t size, int64_t at, int64_t count) {
  Vector<T> grad, state;
  LoadSome(r.grad_hidden + at, count, grad);
  LoadSome<T>(r.grad_state + at, count, state);
  grad += state;
  if constexpr (kCell == kTanh || kCell == kRelu) {
    Vector<T> y;
    LoadSome(r.hidden + at, count, y);
    const Vector<T> slope = kCell == kTanh ? grad * (T{1} - y * y) : (y > Vector<T>{} ? grad : Vector<T>{});
    StoreSome<T>(slope, count, r.grad_gates + at);
    return;
  }
  Vector<T> gates[4];
  if constexpr (kCell == kLstm || kCell == kGru) {
    for (int k = 0; k < 4; ++k) LoadSome(r.gates + k * size + at, count, gates[k]);
  }
  if constexpr (kCell == kLstm) {
    const auto& [in, forget, fresh, out] = gates;
    Vector<T> cell, before, grad_cell;
    LoadSome(r.cell + at, count, cell);
    LoadSome(r.cell_before + at, count, before);
    LoadSome<T>(r.grad_cell + at, count, grad_cell);
    Tanh<T>(cell);
    grad_cell += grad * out * (T{1} - cell * cell);
    StoreSome<T>(grad_cell * fresh * in * (T{1} - in), count, r.grad_gates + at);
    StoreSome<T>(grad_cell * before * forget * (T{1} - forget), count, r.grad_gates + size + at);
    StoreSome<T>(grad_cell * in * (T{1} - fresh * fresh), count, r.grad_gates + 2 * size + at);
    StoreSome<T>(grad * cell * out * (T{1} - out), count, r.grad_gates + 3 * size + at);
    StoreSome<T>(grad_cell * forget, count, r.grad_cell + at);
  } else if constexpr (kCell == kGru) {
    const auto& [reset, update, fresh, product] = gates;
    Vector<T> before;
    LoadSome(r.hidden_before + at, count, before);
    const Vector<T> grad_update = grad * (before - fresh) * update * (T{1} - update);
    const Vector<T> grad_fresh = grad * (T{1} - update) * (T{1} - fresh * fresh);
    const Vector<T> grad_reset = grad_fresh * product * reset * (T{1} - reset);
    StoreSome<T>(grad_reset, count, r.grad_gates + at);
    StoreSome<T>(grad_update, count, r.grad_gates + size + at);
    StoreSome<T>(grad_fresh, count, r.grad_gates + 2 * size + at);
    StoreSome<T>(grad_fresh * reset, count, r.grad_gates + 3 * size + at);
    StoreSome<T>(grad * update, count, r.grad_state + at);
  }
}

template <typename T>
void CopyRows(const Sequence<const T>& from, int64_t first, int64_t rows, int64_t size, T* to) {
  for (int64_t n = 0; n < rows; ++n) std::copy_n(from.At(0, first + n), size, to + n * size);
}

template <typename T>
void CopyRows(const T* from, int64_t first, int64_t rows, int64_t size, const Sequence<T>& to) {
  for (int64_t n = 0; n < rows; ++n) std::copy_n(from + n * size, size, to.At(0, first + n));
}

// Computes the gradients of the gates of rows [first, first + rows) from those of their states, [rows, H].
template <typename T, Cell kCell>
COTAN_SIMD_VERSIONS void BackwardGates(const Geometry& g, const Backward<T>& o, const RecurrentStep<T>& s,
                                       int64_t first, int64_t rows, T* grad_state, T* grad_cell) {
  constexpr bool kHasGates = kCell == kLstm || kCell == kGru;
  for (int64_t n = first; n < first + rows; ++n) {
    const BackwardRow<T> row = {o.grad_hidden.At(s.step, n),
                                o.hidden.At(s.step, n),
                                s.hidden.At(s.before, n),
                                kHasGates ? o.gates.At(s.step, n) : nullptr,
                                kCell == kLstm ? o.cell.At(s.step, n) : nullptr,
                                kCell == kLstm ? s.cell.At(s.before, n) : nullptr,
                                grad_state + (n - first) * g.hidden,
                                kCell == kLstm ? grad_cell + (n - first) * g.hidden : nullptr,
                                o.grad_gates.At(s.step, n)};
    for (int64_t at = 0; at < g.hidden; at += kVectorSize<T>) {
      BackwardUnits<T, kCell>(row, g.hidden, at, std::min(kVectorSize<T>, g.hidden - at));
    }
  }
}

// Adds the gradients of hidden products in step `step`, times the packed weight, to `grad_state`, or replaces it unless
// the cell is a GRU. Between the gradients of a GRU's products are those of the new gate, whose part of the weight is
// behind the other one.
template <typename T, Cell kCell>
void MultiplySlopes(const Geometry& g, const Backward<T>& o, const T* panels, int64_t step, int64_t first, int64_t rows,
                    T* grad_state) {
  const T* const slopes = o.grad_gates.At(step, first);
  const int64_t row = o.grad_gates.rows.row;
  if constexpr (kCell == kGru) {
    MultiplyRows<T>(slopes, row, panels, rows, g.hidden, 2 * g.hidden, grad_state, true);
    MultiplyRows<T>(slopes + 3 * g.hidden, row, panels + PackedSize<T>(2 * g.hidden, g.hidden), rows, g.hidden,
                    g.hidden, grad_state, true);
  } else {
    MultiplyRows<T>(slopes, row, panels, rows, g.hidden, GatesOf(kCell) * g.hidden, grad_state, false);
  }
}

// Computes all steps of rows [first, first + rows) in reverse order. `scratch` is [rows, H] gradients of the
// state and, for an LSTM, [rows, H] gradients of the cell.
template <typename T, Cell kCell>
void BackwardRows(const Geometry& g, const Backward<T>& o, const T* panels, int64_t first, int64_t rows, T* scratch) {
  T* const grad_state = scratch;
  T* const grad_cell = kCell == kLstm ? scratch + rows * g.hidden : nullptr;
  std::fill_n(grad_state, rows * g.hidden, T{0});
  if (kCell == kLstm) CopyRows(o.grad_last_cell, first, rows, g.hidden, grad_cell);
  for (int64_t i = g.steps; i-- > 0;) {
    RecurrentStep<T> s = {o.hidden, o.cell, 0, g.Step(i)};
    if (i > 0) s.before = g.Step(i - 1);
    if (i == 0) s.hidden = o.h0, s.cell = o.c0;
    BackwardGates<T, kCell>(g, o, s, first, rows, grad_state, grad_cell);
    MultiplySlopes<T, kCell>(g, o, panels, s.step, first, rows, grad_state);
  }
  CopyRows(grad_state, first, rows, g.hidden, o.grad_h0);
  if (kCell == kLstm) CopyRows(grad_cell, first, rows, g.hidden, o.grad_c0);
}

template <typename T, Cell kCell>
class RecurrentBackwardKernel final : public Kernel {
 public:
  RecurrentBackwardKernel(const KernelRequest& request)
      : geometry_(request.op.recurrent_backward(), request.inputs[1], request.threads),
        weight_column_(request.inputs[2].layout.strides[1]) {
    for (const TensorSpec& spec : request.inputs) inputs_.push_back(RowsOf(spec));
    for (const TensorSpec& spec : request.outputs) outputs_.push_back(RowsOf(spec));
    if (kCell == kGru) {
      depths_ = {2 * geometry_.hidden, geometry_.hidden};
    } else {
      depths_ = {GatesOf(kCell) * geometry_.hidden};
    }
    for (const int64_t depth : depths_) packed_ += PackedSize<T>(depth, geometry_.hidden);
    worker_size_ = geometry_.chunk * geometry_.hidden * (kCell == kLstm ? 2 : 1);
    scratch_bytes_ = static_cast<size_t>(packed_ + geometry_.threads * worker_size_) * sizeof(T);
  }

  absl::Status Run(const KernelArgs& args) override {
    const auto in = [&](size_t i) { return Sequence<const T>{static_cast<const T*>(args.inputs[i]), inputs_[i]}; };
    const auto out = [&](size_t i) { return Sequence<T>{static_cast<T*>(args.outputs[i]), outputs_[i]}; };
    Backward<T> o;
    o.grad_hidden = in(0);
    o.hidden = in(1);
    o.h0 = in(3);
    if (kCell == kLstm || kCell == kGru) o.gates = in(4);
    o.grad_gates = out(0);
    o.grad_h0 = out(1);
    if (kCell == kLstm) {
      o.cell = in(5);
      o.c0 = in(6);
      o.grad_last_cell = in(7);
      o.grad_c0 = out(2);
    }
    T* const panels = static_cast<T*>(args.scratch);
    PackWeight(static_cast<const T*>(args.inputs[2]), panels);
    ParallelForWorker(geometry_.threads, geometry_.batch, geometry_.chunk, [&](int worker, int64_t begin, int64_t end) {
      T* const scratch = panels + packed_ + worker * worker_size_;
      BackwardRows<T, kCell>(geometry_, o, panels, begin, end - begin, scratch);
    });
    return absl::OkStatus();
  }

 private:
  void PackWeight(const T* weight, T* panels) const {
    for (const int64_t depth : depths_) {
      Pack(weight, inputs_[2].row, weight_column_, depth, geometry_.hidden, panels);
      weight += depth * inputs_[2].row;
      panels += PackedSize<T>(depth, geometry_.hidden);
    }
  }

  const Geometry geometry_;
  std::vector<Rows> inputs_, outputs_;
  const int64_t weight_column_;
  std::vector<int64_t> depths_;  // rows of the weight that are packed as one matrix; see MultiplySlopes()
  int64_t packed_ = 0;           // elements
  int64_t worker_size_ = 0;      // elements
};

template <template <typename, Cell> class K, typename T>
std::unique_ptr<Kernel> MakeCell(const KernelRequest& request, Cell cell) {
  switch (cell) {
    case kLstm:
      return std::make_unique<K<T, kLstm>>(request);
    case kGru:
      return std::make_unique<K<T, kGru>>(request);
    case kRelu:
      return std::make_unique<K<T, kRelu>>(request);
    default:
      return std::make_unique<K<T, kTanh>>(request);
  }
}

template <template <typename, Cell> class K>
absl::StatusOr<std::unique_ptr<Kernel>> MakeTyped(const KernelRequest& request, Cell cell) {
  if (request.inputs[0].dtype == DType::kFloat32) return MakeCell<K, float>(request, cell);
  if (request.inputs[0].dtype == DType::kFloat64) return MakeCell<K, double>(request, cell);
  return absl::UnimplementedError(
      absl::StrCat("recurrent: dtype ", DTypeName(request.inputs[0].dtype), " is not supported; expected f32 or f64"));
}

}  // namespace
}  // namespace recurrent

absl::StatusOr<std::unique_ptr<Kernel>> MakeRecurrent(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  return WithDenseRows(request, 1, [](const KernelRequest& dense) {
    return recurrent::MakeTyped<recurrent::RecurrentKernel>(dense, dense.op.recurrent().cell());
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeRecurrentBackward(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  return WithDenseRows(request, 2, [](const KernelRequest& dense) {
    return recurrent::MakeTyped<recurrent::RecurrentBackwardKernel>(dense, dense.op.recurrent_backward().cell());
  });
}

}  // namespace cotan::cpu
