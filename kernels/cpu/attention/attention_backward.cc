// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstdint>

#include "base/status_macros.h"
#include "kernels/api/op_check.h"
#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/attention/attention_blocks.h"
#include "kernels/cpu/simd/gemm_core.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/threading/parallel.h"

namespace cotan::cpu {
namespace attention {
namespace {

template <typename T>
struct Backward {
  const T* grad;
  const T* q;
  const T* k;
  const T* v;
  const T* result;
  const T* logsumexp;
  const T* bias;  // may be null
  T* grad_q;
  T* grad_k;
  T* grad_v;
};

struct BackwardStrides {
  Strides grad, q, k, v, result, logsumexp, bias, grad_q, grad_k, grad_v;
};

// Scratch of one head's backward pass: packed operands, two blocks of scores, sums. With a null base it only
// computes the size.
template <typename T>
struct BackwardScratch {
  T* keys_t;  // K^T, V^T in blocks of keys
  T* values_t;
  T* keys;     // K in blocks of keys
  T* queries;  // Q, grad in blocks of queries
  T* grads;
  T* scores;  // probabilities of a block; `slopes` has their gradients
  T* slopes;
  T* dots;    // sum over e of grad * result, per query
  T* grad_q;  // [L, E]
  T* grad_k;  // [S, E]
  T* grad_v;  // [S, Ev]
  int64_t size;

  BackwardScratch(const Geometry& g, T* base) {
    const int64_t key_blocks = (g.keys + kKeys - 1) / kKeys;
    const int64_t query_blocks = (g.queries + kQueries - 1) / kQueries;
    size = 0;
    const auto take = [&](int64_t count) {
      T* const at = base == nullptr ? nullptr : base + size;
      size += (count + 15) / 16 * 16;
      return at;
    };
    keys_t = take(key_blocks * PackedSize<T>(g.size, kKeys));
    values_t = take(key_blocks * PackedSize<T>(g.value_size, kKeys));
    keys = take(key_blocks * PackedSize<T>(kKeys, g.size));
    queries = take(query_blocks * PackedSize<T>(kQueries, g.size));
    grads = take(query_blocks * PackedSize<T>(kQueries, g.value_size));
    scores = take(kQueries * kKeys);
    slopes = take(kQueries * kKeys);
    dots = take(g.queries);
    grad_q = take(g.queries * g.size);
    grad_k = take(g.keys * g.size);
    grad_v = take(g.keys * g.value_size);
  }
};

template <typename T>
[[gnu::always_inline]] inline void StoreRows(const T* from, int64_t rows, int64_t columns, const Strides& strides,
                                             T* to) {
  for (int64_t i = 0; i < rows; ++i) {
    T* row = to + i * strides.row;
    if (strides.column == 1) {
      for (int64_t e = 0; e < columns; ++e) row[e] = from[i * columns + e];
    } else {
      for (int64_t e = 0; e < columns; ++e) row[e * strides.column] = from[i * columns + e];
    }
  }
}

// Returns the sum of the products of the elements of two rows.
template <typename T>
[[gnu::always_inline]] inline T DotProduct(const T* a, int64_t a_step, const T* b, int64_t b_step, int64_t size) {
  T parts[kVectorSize<T>] = {};
  int64_t e = 0;
  if (a_step == 1 && b_step == 1) {
    for (; e + kVectorSize<T> <= size; e += kVectorSize<T>) {
      for (int j = 0; j < kVectorSize<T>; ++j) parts[j] += a[e + j] * b[e + j];
    }
  }
  for (; e < size; ++e) parts[0] += a[e * a_step] * b[e * b_step];
  return SumOf<T>(parts);
}

// Computes the probabilities of one block from the saved logsumexp, then the gradients of its scores.
template <typename T>
[[gnu::always_inline]] inline void BackwardBlock(const Geometry& g, const BackwardStrides& s, const Backward<T>& head,
                                                 const BackwardScratch<T>& x, int64_t query, int64_t key) {
  const int64_t queries = std::min(kQueries, g.queries - query);
  const int64_t keys = std::min(kKeys, g.keys - key);
  const int64_t columns = (keys + kPanelColumns<T> - 1) / kPanelColumns<T> * kPanelColumns<T>;
  const int64_t key_block = key / kKeys;
  const int64_t query_block = query / kQueries;
  MultiplyPacked(head.q + query * s.q.row, s.q.row, s.q.column, x.keys_t + key_block * PackedSize<T>(g.size, kKeys),
                 g.size, queries, columns, g.size, x.scores, kKeys, false);
  FinishScores(g, head.bias, s.bias, query, queries, key, keys, x.scores);
  MultiplyPacked(head.grad + query * s.grad.row, s.grad.row, s.grad.column,
                 x.values_t + key_block * PackedSize<T>(g.value_size, kKeys), g.value_size, queries, columns,
                 g.value_size, x.slopes, kKeys, false);
  const T scale = static_cast<T>(g.scale);
  for (int64_t i = 0; i < queries; ++i) {
    const T logsumexp = head.logsumexp[(query + i) * s.logsumexp.row];
    T* p = x.scores + i * kKeys;
    T* slope = x.slopes + i * kKeys;
    if (logsumexp == kMinusInfinity<T>) {
      std::fill_n(p, kKeys, T{0});
      std::fill_n(slope, kKeys, T{0});
      continue;
    }
    const T dot = x.dots[query + i];
    for (int64_t j = 0; j < columns; j += kVectorSize<T>) {
      Vector<T> probability;
      Vector<T> gradient;
      Load(p + j, probability);
      Load(slope + j, gradient);
      probability -= logsumexp;
      ExpOfNegative<T>(probability);
      gradient = probability * (gradient - dot) * scale;
      Store<T>(probability, p + j);
      Store<T>(gradient, slope + j);
    }
  }
  MultiplyPacked(x.scores, 1, kKeys, x.grads + query_block * PackedSize<T>(kQueries, g.value_size), queries, keys,
                 g.value_size, queries, x.grad_v + key * g.value_size, g.value_size, true);
  MultiplyPacked(x.slopes, 1, kKeys, x.queries + query_block * PackedSize<T>(kQueries, g.size), queries, keys, g.size,
                 queries, x.grad_k + key * g.size, g.size, true);
  MultiplyPacked(x.slopes, kKeys, 1, x.keys + key_block * PackedSize<T>(kKeys, g.size), keys, queries, g.size, keys,
                 x.grad_q + query * g.size, g.size, true);
}

template <typename T>
COTAN_SIMD_VERSIONS void BackwardHead(const Geometry& g, const BackwardStrides& s, const Backward<T>& head,
                                      const BackwardScratch<T>& x) {
  PackBlocks(head.k, s.k, g.keys, g.size, kKeys, true, x.keys_t);
  PackBlocks(head.v, s.v, g.keys, g.value_size, kKeys, true, x.values_t);
  PackBlocks(head.k, s.k, g.keys, g.size, kKeys, false, x.keys);
  PackBlocks(head.q, s.q, g.queries, g.size, kQueries, false, x.queries);
  PackBlocks(head.grad, s.grad, g.queries, g.value_size, kQueries, false, x.grads);
  for (int64_t i = 0; i < g.queries; ++i) {
    x.dots[i] = DotProduct(head.grad + i * s.grad.row, s.grad.column, head.result + i * s.result.row, s.result.column,
                           g.value_size);
  }
  std::fill_n(x.grad_q, g.queries * g.size, T{0});
  std::fill_n(x.grad_k, g.keys * g.size, T{0});
  std::fill_n(x.grad_v, g.keys * g.value_size, T{0});
  for (int64_t query = 0; query < g.queries; query += kQueries) {
    const int64_t visible = g.VisibleKeys(std::min(g.queries, query + kQueries));
    for (int64_t key = 0; key < visible; key += kKeys) BackwardBlock(g, s, head, x, query, key);
  }
  StoreRows(x.grad_q, g.queries, g.size, s.grad_q, head.grad_q);
  StoreRows(x.grad_k, g.keys, g.size, s.grad_k, head.grad_k);
  StoreRows(x.grad_v, g.keys, g.value_size, s.grad_v, head.grad_v);
}

template <typename T>
class AttentionBackward final : public Kernel {
 public:
  AttentionBackward(const Geometry& geometry, const BackwardStrides& strides, bool has_bias, int threads)
      : geometry_(geometry), strides_(strides), has_bias_(has_bias), threads_(threads) {
    worker_size_ = BackwardScratch<T>(geometry, nullptr).size;
    scratch_bytes_ = static_cast<size_t>(worker_size_ * threads) * sizeof(T);
  }

  absl::Status Run(const KernelArgs& args) override {
    ParallelForWorker(threads_, geometry_.batch * geometry_.heads, 1, [&](int worker, int64_t i, int64_t) {
      const int64_t b = i / geometry_.heads;
      const int64_t h = i % geometry_.heads;
      const auto input = [&](size_t k, const Strides& s) {
        return static_cast<const T*>(args.inputs[k]) + b * s.batch + h * s.head;
      };
      const auto output = [&](size_t k, const Strides& s) {
        return static_cast<T*>(args.outputs[k]) + b * s.batch + h * s.head;
      };
      const Backward<T> head{input(0, strides_.grad),
                             input(1, strides_.q),
                             input(2, strides_.k),
                             input(3, strides_.v),
                             input(4, strides_.result),
                             input(5, strides_.logsumexp),
                             has_bias_ ? input(6, strides_.bias) : nullptr,
                             output(0, strides_.grad_q),
                             output(1, strides_.grad_k),
                             output(2, strides_.grad_v)};
      const BackwardScratch<T> scratch(geometry_, static_cast<T*>(args.scratch) + worker * worker_size_);
      BackwardHead(geometry_, strides_, head, scratch);
    });
    return absl::OkStatus();
  }

 private:
  Geometry geometry_;
  BackwardStrides strides_;
  bool has_bias_;
  int threads_;
  int64_t worker_size_;  // elements
};

}  // namespace
}  // namespace attention

absl::StatusOr<std::unique_ptr<Kernel>> MakeAttentionBackward(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  const auto in = request.inputs;
  const auto out = request.outputs;
  const attention::Geometry geometry(request.op.attention_backward(), in[1].layout, in[2].layout, in[3].layout);
  attention::BackwardStrides strides{attention::StridesOf(in[0].layout),
                                     attention::StridesOf(in[1].layout),
                                     attention::StridesOf(in[2].layout),
                                     attention::StridesOf(in[3].layout),
                                     attention::StridesOf(in[4].layout),
                                     attention::StridesOf(in[5].layout),
                                     {},
                                     attention::StridesOf(out[0].layout),
                                     attention::StridesOf(out[1].layout),
                                     attention::StridesOf(out[2].layout)};
  if (in.size() > 6) strides.bias = attention::BroadcastStrides(in[6].layout);
  return attention::MakeFor<attention::AttentionBackward>(out[0].dtype, geometry, strides, in.size() > 6,
                                                          ThreadsWorthwhile(request.threads, 2.5 * geometry.Flops()));
}

}  // namespace cotan::cpu
