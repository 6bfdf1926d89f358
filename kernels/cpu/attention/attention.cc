// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/api/op_check.h"
#include "kernels/cpu/simd/gemm_core.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/threading/parallel.h"

namespace cotan::cpu {
namespace {

// Number of queries and of keys of a block of scores.
constexpr int64_t kQueries = 32;
constexpr int64_t kKeys = 64;

template <typename T>
constexpr T kMinusInfinity = -std::numeric_limits<T>::infinity();

// Strides of a [B, H, L, E] operand, in elements.
struct Strides {
  int64_t batch = 0;
  int64_t head = 0;
  int64_t row = 0;
  int64_t column = 0;
};

Strides StridesOf(const StridedLayout& layout) {
  return {layout.strides[0], layout.strides[1], layout.strides[2], layout.rank() > 3 ? layout.strides[3] : 0};
}

// Returns the strides of an operand that broadcasts to four dimensions.
Strides BroadcastStrides(const StridedLayout& layout) {
  int64_t strides[4] = {};
  const int missing = 4 - layout.rank();
  for (int d = 0; d < layout.rank(); ++d) {
    const auto i = static_cast<size_t>(d);
    if (layout.sizes[i] != 1) strides[d + missing] = layout.strides[i];
  }
  return {strides[0], strides[1], strides[2], strides[3]};
}

struct Geometry {
  int64_t batch = 0;
  int64_t heads = 0;
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t size = 0;        // elements of a query or a key
  int64_t value_size = 0;  // elements of a value
  bool is_causal = false;
  double scale = 1;

  Geometry(const serialization::Attention& op, const StridedLayout& q, const StridedLayout& k, const StridedLayout& v)
      : batch(q.sizes[0]),
        heads(q.sizes[1]),
        queries(q.sizes[2]),
        keys(k.sizes[2]),
        size(q.sizes[3]),
        value_size(v.sizes[3]),
        is_causal(op.is_causal()),
        scale(op.scale()) {}

  // Returns the number of keys that some query before `query_end` attends to.
  int64_t VisibleKeys(int64_t query_end) const { return is_causal ? std::min(keys, query_end) : keys; }
  double Flops() const {
    return 2.0 * static_cast<double>(batch * heads) * static_cast<double>(queries) * static_cast<double>(keys) *
           static_cast<double>(size + value_size) * (is_causal ? 0.5 : 1);
  }
};

// Replaces each element x <= 0 by exp(x), and by 0 for x < -87. Range reduction x = n ln 2 + r with the
// constants C1 and C2 of Cephes' expf, then the Taylor polynomial of degree 7. NaN stays NaN.
[[gnu::always_inline]] inline void ExpOfNegative(Vector<float>& x) {
  typedef int32_t Bits __attribute__((vector_size(64)));
  constexpr float kLog2E = 1.44269504F;
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  const Vector<float> lowest = Vector<float>{} - 87.0F;
  const Bits is_lost = x < lowest;
  const Vector<float> clamped = is_lost ? lowest : x;
  const Vector<float> shifted = clamped * kLog2E + kRound;
  const Vector<float> n = shifted - kRound;
  const Vector<float> r = (clamped - n * kLn2High) - n * kLn2Low;
  Vector<float> p = r * (1.0F / 5040) + 1.0F / 720;
  p = p * r + 1.0F / 120;
  p = p * r + 1.0F / 24;
  p = p * r + 1.0F / 6;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  // Multiplies by 2^n: the low bits of `shifted` hold n, which is added to the exponent.
  const Vector<float> power =
      reinterpret_cast<Vector<float>>(reinterpret_cast<Bits>(p) + (reinterpret_cast<Bits>(shifted) << 23));
  x = is_lost ? Vector<float>{} : power;
}

[[gnu::always_inline]] inline void ExpOfNegative(Vector<double>& x) {
  for (int i = 0; i < kVectorSize<double>; ++i) x[i] = std::exp(x[i]);
}

template <typename T>
[[gnu::always_inline]] inline T ExpOfOne(T x) {
  return std::exp(x);
}

// Returns the largest of a row of kKeys scores.
template <typename T>
[[gnu::always_inline]] inline T RowMax(const T* row) {
  Vector<T> best;
  Load(row, best);
  for (int64_t i = kVectorSize<T>; i < kKeys; i += kVectorSize<T>) {
    Vector<T> x;
    Load(row + i, x);
    best = x > best ? x : best;
  }
  T largest = best[0];
  for (int i = 1; i < kVectorSize<T>; ++i) largest = std::max<T>(largest, best[i]);
  return largest;
}

// Computes row = exp(row - max) for kKeys scores and returns their sum.
template <typename T>
[[gnu::always_inline]] inline T ExpRow(T* row, T max) {
  Vector<T> sums = {};
  for (int64_t i = 0; i < kKeys; i += kVectorSize<T>) {
    Vector<T> x;
    Load(row + i, x);
    x -= max;
    ExpOfNegative(x);
    Store<T>(x, row + i);
    sums += x;
  }
  T sum = 0;
  for (int i = 0; i < kVectorSize<T>; ++i) sum += sums[i];
  return sum;
}

// Scales a block of scores [queries, kKeys], adds the bias and sets masked scores to -inf, also in the
// columns from `keys` on.
template <typename T>
[[gnu::always_inline]] inline void FinishScores(const Geometry& g, const T* bias, const Strides& bias_strides,
                                                int64_t query, int64_t queries, int64_t key, int64_t keys, T* scores) {
  const T scale = static_cast<T>(g.scale);
  for (int64_t i = 0; i < queries; ++i) {
    T* row = scores + i * kKeys;
    for (int64_t j = 0; j < kKeys; ++j) row[j] *= scale;
    if (bias != nullptr) {
      const T* from = bias + (query + i) * bias_strides.row + key * bias_strides.column;
      for (int64_t j = 0; j < keys; ++j) row[j] += from[j * bias_strides.column];
    }
    const int64_t visible = std::min(keys, g.is_causal ? std::max<int64_t>(0, query + i + 1 - key) : keys);
    for (int64_t j = visible; j < kKeys; ++j) row[j] = kMinusInfinity<T>;
  }
}

// The operands of one head.
template <typename T>
struct Forward {
  const T* q;
  const T* k;
  const T* v;
  const T* bias;  // may be null
  T* result;
  T* logsumexp;  // may be null
};

struct ForwardStrides {
  Strides q, k, v, bias, result, logsumexp;
};

// Scratch of the forward pass, in elements of T.
struct ForwardScratch {
  int64_t keys;    // K^T in blocks of kKeys keys, packed
  int64_t values;  // V in the same blocks, packed
  int64_t scores;
  int64_t sums;

  template <typename T>
  static ForwardScratch For(const Geometry& g) {
    const int64_t blocks = (g.keys + kKeys - 1) / kKeys;
    return {blocks * PackedSize<T>(g.size, kKeys), blocks * PackedSize<T>(kKeys, g.value_size), kQueries * kKeys,
            kQueries * (g.value_size + 2)};
  }
  int64_t Total() const { return keys + values + scores + sums; }
};

// Packs blocks of `block` rows of a [rows, columns] matrix, transposed or not.
template <typename T>
[[gnu::always_inline]] inline void PackBlocks(const T* from, const Strides& strides, int64_t rows, int64_t columns,
                                              int64_t block, bool transposed, T* to) {
  for (int64_t begin = 0; begin < rows; begin += block) {
    const int64_t count = std::min(block, rows - begin);
    const T* first = from + begin * strides.row;
    if (transposed) {
      PackPanels(first, strides.column, strides.row, columns, count, to);
      to += PackedSize<T>(columns, block);
    } else {
      PackPanels(first, strides.row, strides.column, count, columns, to);
      to += PackedSize<T>(block, columns);
    }
  }
}

template <typename T>
COTAN_SIMD_VERSIONS void PackForward(const Geometry& g, const ForwardStrides& s, const Forward<T>& head, T* keys,
                                     T* values, int64_t visible) {
  PackBlocks(head.k, s.k, visible, g.size, kKeys, true, keys);
  PackBlocks(head.v, s.v, visible, g.value_size, kKeys, false, values);
}

// Computes queries [query, query + queries) of one head with the online softmax: the sums are rescaled when a
// later block has a larger maximum. The first `packed` keys of the head are packed.
template <typename T>
COTAN_SIMD_VERSIONS void AttendBlock(const Geometry& g, const ForwardStrides& s, const Forward<T>& head, int64_t query,
                                     int64_t queries, const T* packed_keys, const T* packed_values, int64_t packed,
                                     T* scores, T* sums) {
  T* max = sums + kQueries * g.value_size;
  T* total = max + kQueries;
  std::fill_n(sums, queries * g.value_size, T{0});
  std::fill_n(max, queries, kMinusInfinity<T>);
  std::fill_n(total, queries, T{0});
  const int64_t visible = g.VisibleKeys(query + queries);
  for (int64_t key = 0, block = 0; key < visible; key += kKeys, ++block) {
    const int64_t keys = std::min(kKeys, visible - key);
    MultiplyPacked(head.q + query * s.q.row, s.q.row, s.q.column, packed_keys + block * PackedSize<T>(g.size, kKeys),
                   g.size, queries, (keys + kPanelColumns<T> - 1) / kPanelColumns<T> * kPanelColumns<T>, g.size, scores,
                   kKeys, false);
    FinishScores(g, head.bias, s.bias, query, queries, key, keys, scores);
    for (int64_t i = 0; i < queries; ++i) {
      T* row = scores + i * kKeys;
      const T largest = std::max(max[i], RowMax(row));
      if (largest == kMinusInfinity<T>) {
        std::fill_n(row, kKeys, T{0});
        continue;
      }
      const T correction = max[i] == largest ? T{1} : ExpOfOne(max[i] - largest);
      total[i] = total[i] * correction + ExpRow(row, largest);
      max[i] = largest;
      if (correction == T{1}) continue;
      for (int64_t e = 0; e < g.value_size; ++e) sums[i * g.value_size + e] *= correction;
    }
    MultiplyPacked(scores, kKeys, 1, packed_values + block * PackedSize<T>(kKeys, g.value_size),
                   std::min(kKeys, packed - key), queries, g.value_size, keys, sums, g.value_size, true);
  }
  for (int64_t i = 0; i < queries; ++i) {
    const T factor = total[i] == 0 ? T{0} : T{1} / total[i];
    T* to = head.result + (query + i) * s.result.row;
    for (int64_t e = 0; e < g.value_size; ++e) to[e * s.result.column] = sums[i * g.value_size + e] * factor;
    if (head.logsumexp != nullptr) head.logsumexp[(query + i) * s.logsumexp.row] = max[i] + std::log(total[i]);
  }
}

template <typename T>
class Attention final : public Kernel {
 public:
  Attention(const Geometry& geometry, const ForwardStrides& strides, bool has_bias, bool has_logsumexp, int threads)
      : geometry_(geometry),
        strides_(strides),
        has_bias_(has_bias),
        has_logsumexp_(has_logsumexp),
        threads_(threads),
        layout_(ForwardScratch::For<T>(geometry)) {
    // If there are fewer heads than threads, each head is split into parts, and each part packs the keys
    // again.
    const int64_t heads = std::max<int64_t>(1, geometry.batch * geometry.heads);
    const int64_t blocks = std::max<int64_t>(1, (geometry.queries + kQueries - 1) / kQueries);
    const int64_t parts = std::min(blocks, (threads + heads - 1) / heads);
    blocks_per_part_ = (blocks + parts - 1) / parts;
    parts_ = (blocks + blocks_per_part_ - 1) / blocks_per_part_;
    worker_size_ = (layout_.Total() + 15) / 16 * 16;
    scratch_bytes_ = static_cast<size_t>(worker_size_ * threads) * sizeof(T);
  }

  absl::Status Run(const KernelArgs& args) override {
    const int64_t heads = geometry_.batch * geometry_.heads;
    ParallelForWorker(threads_, heads * parts_, 1, [&](int worker, int64_t i, int64_t) {
      RunPart(args, i / parts_, i % parts_, static_cast<T*>(args.scratch) + worker * worker_size_);
    });
    return absl::OkStatus();
  }

 private:
  void RunPart(const KernelArgs& args, int64_t index, int64_t part, T* scratch) const {
    const int64_t b = index / geometry_.heads;
    const int64_t h = index % geometry_.heads;
    const auto at = [&](const void* data, const Strides& s) {
      return static_cast<const T*>(data) + b * s.batch + h * s.head;
    };
    const Forward<T> head{at(args.inputs[0], strides_.q),
                          at(args.inputs[1], strides_.k),
                          at(args.inputs[2], strides_.v),
                          has_bias_ ? at(args.inputs[3], strides_.bias) : nullptr,
                          const_cast<T*>(at(args.outputs[0], strides_.result)),
                          has_logsumexp_ ? const_cast<T*>(at(args.outputs[1], strides_.logsumexp)) : nullptr};
    T* values = scratch + layout_.keys;
    T* scores = values + layout_.values;
    const int64_t begin = part * blocks_per_part_ * kQueries;
    const int64_t end = std::min(geometry_.queries, begin + blocks_per_part_ * kQueries);
    PackForward(geometry_, strides_, head, scratch, values, geometry_.VisibleKeys(end));
    for (int64_t query = begin; query < end; query += kQueries) {
      AttendBlock(geometry_, strides_, head, query, std::min(kQueries, end - query), scratch, values,
                  geometry_.VisibleKeys(end), scores, scores + layout_.scores);
    }
  }

  Geometry geometry_;
  ForwardStrides strides_;
  bool has_bias_;
  bool has_logsumexp_;
  int threads_;
  ForwardScratch layout_;
  int64_t blocks_per_part_ = 1;
  int64_t parts_ = 1;
  int64_t worker_size_ = 0;  // elements
};

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
    for (int64_t e = 0; e < columns; ++e) to[i * strides.row + e * strides.column] = from[i * columns + e];
  }
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
      ExpOfNegative(probability);
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
    const T* grad = head.grad + i * s.grad.row;
    const T* result = head.result + i * s.result.row;
    T dot = 0;
    for (int64_t e = 0; e < g.value_size; ++e) dot += grad[e * s.grad.column] * result[e * s.result.column];
    x.dots[i] = dot;
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

template <template <typename> class KernelType, typename... Args>
absl::StatusOr<std::unique_ptr<Kernel>> MakeFor(DType dtype, Args&&... args) {
  if (dtype == DType::kFloat32) return std::make_unique<KernelType<float>>(std::forward<Args>(args)...);
  if (dtype == DType::kFloat64) return std::make_unique<KernelType<double>>(std::forward<Args>(args)...);
  return absl::UnimplementedError(
      absl::StrCat("attention: dtype ", DTypeName(dtype), " is not supported; expected f32 or f64"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeAttention(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  const auto in = request.inputs;
  const auto out = request.outputs;
  const Geometry geometry(request.op.attention(), in[0].layout, in[1].layout, in[2].layout);
  ForwardStrides strides{
      StridesOf(in[0].layout), StridesOf(in[1].layout), StridesOf(in[2].layout), {}, StridesOf(out[0].layout), {}};
  if (in.size() > 3) strides.bias = BroadcastStrides(in[3].layout);
  if (out.size() > 1) strides.logsumexp = StridesOf(out[1].layout);
  return MakeFor<Attention>(out[0].dtype, geometry, strides, in.size() > 3, out.size() > 1,
                            ThreadsWorthwhile(request.threads, geometry.Flops()));
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeAttentionBackward(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  const auto in = request.inputs;
  const auto out = request.outputs;
  const Geometry geometry(request.op.attention_backward(), in[1].layout, in[2].layout, in[3].layout);
  BackwardStrides strides{StridesOf(in[0].layout),
                          StridesOf(in[1].layout),
                          StridesOf(in[2].layout),
                          StridesOf(in[3].layout),
                          StridesOf(in[4].layout),
                          StridesOf(in[5].layout),
                          {},
                          StridesOf(out[0].layout),
                          StridesOf(out[1].layout),
                          StridesOf(out[2].layout)};
  if (in.size() > 6) strides.bias = BroadcastStrides(in[6].layout);
  return MakeFor<AttentionBackward>(out[0].dtype, geometry, strides, in.size() > 6,
                                    ThreadsWorthwhile(request.threads, 2.5 * geometry.Flops()));
}

}  // namespace cotan::cpu
