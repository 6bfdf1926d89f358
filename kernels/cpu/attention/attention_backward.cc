// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "base/status_macros.h"
#include "kernels/api/op_check.h"
#include "kernels/cpu/attention/amx_attention.h"
#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/attention/attention_blocks.h"
#include "kernels/cpu/attention/packed_product.h"
#include "kernels/cpu/attention/score_tile.h"
#include "kernels/cpu/simd/gemm_core.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/threading/parallel.h"

namespace cotan::cpu {
namespace attention {
namespace {

// Scratch of one head's backward pass: packed operands, two blocks of scores, sums. With a null base it only
// computes the size.
template <typename T, typename Stored>
struct BackwardScratch {
  T* keys_t;  // K^T, V^T in blocks of keys
  T* values_t;
  T* keys;     // K in blocks of keys
  T* queries;  // Q, grad in blocks of queries
  T* grads;
  T* scores;  // probabilities of a block; `slopes` has their gradients
  T* slopes;
  T* dots;    // sum over e of grad * result, per query
  T* grad_q;  // [L, E], for an output whose rows are not direct
  T* grad_k;  // [S, E], as well
  T* grad_v;  // [S, Ev], as well
  T* q;       // [L, E], copies of queries that are not direct
  T* grad;    // [L, Ev], as well
  T* block;   // a block of keys, values or results, as well
  int64_t size;

  BackwardScratch(const Geometry& g, const BackwardStrides& s, T* base) {
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
    grad_q = take(IsDirect<T, Stored>(s.grad_q) ? 0 : g.queries * g.size);
    grad_k = take(IsDirect<T, Stored>(s.grad_k) ? 0 : g.keys * g.size);
    grad_v = take(IsDirect<T, Stored>(s.grad_v) ? 0 : g.keys * g.value_size);
    q = take(IsDirect<T, Stored>(s.q) ? 0 : g.queries * g.size);
    grad = take(IsDirect<T, Stored>(s.grad) ? 0 : g.queries * g.value_size);
    const bool are_direct = IsDirect<T, Stored>(s.k) && IsDirect<T, Stored>(s.v) && IsDirect<T, Stored>(s.result);
    block = take(are_direct ? 0 : kKeys * std::max(g.size, g.value_size));
  }
};

// Where the gradient of an operand is summed: rows of dense elements, `stride` apart.
template <typename T>
struct Gradient {
  T* rows;
  int64_t stride;

  T* Row(int64_t i) const { return rows + i * stride; }
};

// Returns the output if it is direct, otherwise `scratch`, from which StoreGradient() copies.
template <typename T, typename Stored>
Gradient<T> GradientIn(Stored* output, const Strides& strides, T* scratch, int64_t size) {
  if constexpr (std::is_same_v<T, Stored>) {
    if (strides.column == 1) return {output, strides.row};
  }
  return {scratch, size};
}

// Copies a gradient to its output, unless it was summed there.
template <typename T, typename Stored>
[[gnu::always_inline]] inline void StoreGradient(const T* scratch, int64_t rows, int64_t size, const Strides& strides,
                                                 Stored* output) {
  if (IsDirect<T, Stored>(strides)) return;
  for (int64_t i = 0; i < rows; ++i) {
    StoreRow(scratch + i * size, T{1}, size, strides.column, output + i * strides.row);
  }
}

template <typename T>
struct Gradients {
  Gradient<T> q, k, v;
};

// Sets rows [begin, end) to 0.
template <typename T>
[[gnu::always_inline]] inline void FillRows(const Gradient<T>& gradient, int64_t begin, int64_t end, int64_t size) {
  for (int64_t i = begin; i < end; ++i) std::fill_n(gradient.Row(i), size, T{0});
}

// Computes the probabilities of a block from the saved logsumexp, and the gradients of its scores. Each product visits
// all tiles before the next one, so that its right matrix stays in the first-level cache.
template <typename T, typename Stored>
[[gnu::always_inline]] inline void ComputeSlopes(const Geometry& g, const BackwardStrides& s,
                                                 const BackwardHead<T, Stored>& head, const Rows<T>& q,
                                                 const Rows<T>& grad, const BackwardScratch<T, Stored>& x,
                                                 const ScoreBlock& block) {
  const T scale = static_cast<T>(g.scale);
  const int64_t key_block = block.key / kKeys;
  MultiplyScores(g, block, q.From(block.query), x.keys_t + key_block * PackedSize<T>(g.size, kKeys), g.size, x.scores);
  MultiplyScores(g, block, grad.From(block.query), x.values_t + key_block * PackedSize<T>(g.value_size, kKeys),
                 g.value_size, x.slopes);
  if (head.bias != nullptr) AddBias(g, block, scale, head.bias, s.bias, x.scores);
  for (int64_t row = 0; row < block.queries; row += kTileRows) {
    const ScoreTile tile = TileAt(g, block, row);
    if (tile.keys == 0) continue;
    SoftmaxGradientOfTile(tile, head.bias != nullptr ? T{1} : scale, scale,
                          head.logsumexp + (block.query + row) * s.logsumexp.row, s.logsumexp.row,
                          x.dots + block.query + row, x.scores + row * kKeys, x.slopes + row * kKeys);
  }
}

// Adds the product of the transposed block of scores or slopes and packed rows of the queries to a gradient. Queries
// before the first that attends to a key have no scores in memory.
template <typename T>
[[gnu::always_inline]] inline void MultiplyTransposed(const Geometry& g, const ScoreBlock& block, const T* scores,
                                                      const T* packed, int64_t size, const Gradient<T>& gradient) {
  for (int64_t column = 0; column < block.keys; column += kTileRows) {
    const int64_t key = block.key + column;
    const int64_t first = g.is_causal ? std::max<int64_t>(0, key - block.query) : 0;
    const int64_t first_query = g.is_causal ? key / kQueries * kQueries : 0;
    MultiplyTilePacked(scores + first * kKeys + column, 1, kKeys, packed + first * kPanelColumns<T>, block.queries,
                       std::min(kTileRows, block.keys - column), size, block.queries - first, gradient.Row(key),
                       gradient.stride, block.query > first_query);
  }
}

// Adds what a block of scores contributes to the gradients.
template <typename T, typename Stored>
[[gnu::always_inline]] inline void AddGradients(const Geometry& g, const BackwardScratch<T, Stored>& x,
                                                const Gradients<T>& grads, const ScoreBlock& block) {
  const int64_t query = block.query, key = block.key;
  const int64_t key_block = key / kKeys;
  const int64_t query_block = query / kQueries;
  for (int64_t row = 0; row < block.queries; row += kTileRows) {
    const ScoreTile tile = TileAt(g, block, row);
    if (tile.keys == 0) continue;
    MultiplyTilePacked(x.slopes + row * kKeys, kKeys, 1, x.keys + key_block * PackedSize<T>(kKeys, g.size),
                       std::min(kKeys, g.keys - key), tile.rows, g.size, tile.keys, grads.q.Row(query + row),
                       grads.q.stride, key > 0);
  }
  MultiplyTransposed(g, block, x.scores, x.grads + query_block * PackedSize<T>(kQueries, g.value_size), g.value_size,
                     grads.v);
  MultiplyTransposed(g, block, x.slopes, x.queries + query_block * PackedSize<T>(kQueries, g.size), g.size, grads.k);
}

// Computes the sum over e of grad * result for each query.
template <typename T, typename Stored>
[[gnu::always_inline]] inline void ComputeDots(const Geometry& g, const Rows<T>& grad, const Rows<Stored>& result,
                                               T* copies, T* dots) {
  for (int64_t query = 0; query < g.queries; query += kKeys) {
    const int64_t queries = std::min(kKeys, g.queries - query);
    const Rows<T> a = grad.From(query);
    const Rows<T> b = DirectRows(result, query, queries, g.value_size, copies);
    DotProductsOfRows(a.data, a.strides.row, b.data, b.strides.row, queries, g.value_size, dots + query);
  }
}

template <typename T, typename Stored>
COTAN_SIMD_VERSIONS void DifferentiateHead(const Geometry& g, const BackwardStrides& s,
                                           const BackwardHead<T, Stored>& head, const BackwardScratch<T, Stored>& x) {
  const Rows<T> q = DirectRows(head.q, 0, g.queries, g.size, x.q);
  const Rows<T> grad = DirectRows(head.grad, 0, g.queries, g.value_size, x.grad);
  PackBlocks(head.k, g.keys, g.size, kKeys, true, x.block, x.keys_t);
  PackBlocks(head.v, g.keys, g.value_size, kKeys, true, x.block, x.values_t);
  PackBlocks(head.k, g.keys, g.size, kKeys, false, x.block, x.keys);
  PackBlocks(q, g.queries, g.size, kQueries, false, x.block, x.queries);
  PackBlocks(grad, g.queries, g.value_size, kQueries, false, x.block, x.grads);
  ComputeDots(g, grad, head.result, x.block, x.dots);
  const Gradients<T> grads{GradientIn(head.grad_q, s.grad_q, x.grad_q, g.size),
                           GradientIn(head.grad_k, s.grad_k, x.grad_k, g.size),
                           GradientIn(head.grad_v, s.grad_v, x.grad_v, g.value_size)};
  // The first product for a row of gradients sets it. Rows that no query attends to, and queries without keys, get 0.
  const int64_t visible = g.queries > 0 ? g.VisibleKeys(g.queries) : 0;
  if (g.keys == 0) FillRows(grads.q, 0, g.queries, g.size);
  FillRows(grads.k, visible, g.keys, g.size);
  FillRows(grads.v, visible, g.keys, g.value_size);
  for (int64_t query = 0; query < g.queries; query += kQueries) {
    const int64_t visible_to_block = g.VisibleKeys(std::min(g.queries, query + kQueries));
    for (int64_t key = 0; key < visible_to_block; key += kKeys) {
      const ScoreBlock block = BlockAt(g, query, g.queries, key);
      ComputeSlopes(g, s, head, q, grad, x, block);
      AddGradients(g, x, grads, block);
    }
  }
  StoreGradient(x.grad_q, g.queries, g.size, s.grad_q, head.grad_q);
  StoreGradient(x.grad_k, g.keys, g.size, s.grad_k, head.grad_k);
  StoreGradient(x.grad_v, g.keys, g.value_size, s.grad_v, head.grad_v);
}

template <typename T, typename Stored>
class AttentionBackward final : public Kernel {
 public:
  AttentionBackward(const Geometry& geometry, const BackwardStrides& strides, bool has_bias, int threads)
      : geometry_(geometry), strides_(strides), has_bias_(has_bias), threads_(threads) {
    worker_size_ = BackwardScratch<T, Stored>(geometry, strides, nullptr).size;
    scratch_bytes_ = static_cast<size_t>(worker_size_ * threads) * sizeof(T);
  }

  absl::Status Run(const KernelArgs& args) override {
    ParallelForWorker(threads_, geometry_.batch * geometry_.heads, 1, [&](int worker, int64_t i, int64_t) {
      const auto head = BackwardHeadOf<T, Stored>(args, geometry_, strides_, has_bias_, i);
      const BackwardScratch<T, Stored> scratch(geometry_, strides_,
                                               static_cast<T*>(args.scratch) + worker * worker_size_);
      DifferentiateHead(geometry_, strides_, head, scratch);
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
  const int threads = ThreadsWorthwhile(request.threads, 2.5 * geometry.Flops());
  if (out[0].dtype == DType::kBFloat16) {
    std::unique_ptr<Kernel> kernel = attention::MakeAmxAttentionBackward(geometry, strides, in.size() > 6, threads);
    if (kernel != nullptr) return kernel;
  }
  return attention::MakeFor<attention::AttentionBackward>(out[0].dtype, geometry, strides, in.size() > 6, threads);
}

}  // namespace cotan::cpu
