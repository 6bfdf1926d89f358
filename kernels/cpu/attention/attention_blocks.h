// SPDX-License-Identifier: Apache-2.0

// Geometry of an attention, and the steps on blocks of scores that its forward and backward share. The steps
// are inlined into functions that are compiled for several instruction sets (see simd.h).
#ifndef COTAN_KERNELS_CPU_ATTENTION_ATTENTION_BLOCKS_H_
#define COTAN_KERNELS_CPU_ATTENTION_ATTENTION_BLOCKS_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/half.h"
#include "base/layout.h"
#include "base/rounding.h"
#include "kernels/api/kernel.h"
#include "kernels/cpu/attention/bfloat16_rows.h"
#include "kernels/cpu/attention/packed_product.h"
#include "kernels/cpu/attention/score_tile.h"
#include "kernels/cpu/attention/transposed_panels.h"
#include "kernels/cpu/simd/avx512_lanes.h"
#include "kernels/cpu/simd/gemm_core.h"
#include "serialization/schema/program.pb.h"

namespace cotan::cpu::attention {

// Number of queries of a block of scores, which has kKeys keys.
inline constexpr int64_t kQueries = 32;

// Strides of a [B, H, L, E] operand, in elements.
struct Strides {
  int64_t batch = 0;
  int64_t head = 0;
  int64_t row = 0;
  int64_t column = 0;

  // Returns the offset of head `h` of batch item `b`.
  int64_t Head(int64_t b, int64_t h) const { return b * batch + h * head; }
};

inline Strides StridesOf(const StridedLayout& layout) {
  return {layout.strides[0], layout.strides[1], layout.strides[2], layout.rank() > 3 ? layout.strides[3] : 0};
}

// Returns the strides of an operand that broadcasts to four dimensions.
inline Strides BroadcastStrides(const StridedLayout& layout) {
  int64_t strides[4] = {};
  const int missing = 4 - layout.rank();
  for (int d = 0; d < layout.rank(); ++d) {
    const auto i = static_cast<size_t>(d);
    if (layout.sizes[i] != 1) strides[d + missing] = layout.strides[i];
  }
  return {strides[0], strides[1], strides[2], strides[3]};
}

// Strides of the operands of a forward and of a backward.
struct ForwardStrides {
  Strides q, k, v, bias, result, logsumexp;
};
struct BackwardStrides {
  Strides grad, q, k, v, result, logsumexp, bias, grad_q, grad_k, grad_v;
};

// The sizes and attributes of an attention.
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

// Queries [query, query + queries) and keys [key, key + keys). Their scores are kKeys elements from row to row.
struct ScoreBlock {
  int64_t query = 0;
  int64_t queries = 0;  // at most kQueries
  int64_t key = 0;
  int64_t keys = 0;  // at most kKeys; without those that no query of the block attends to
};

// Returns the block at `query` and `key`; its queries end at `end`.
inline ScoreBlock BlockAt(const Geometry& g, int64_t query, int64_t end, int64_t key) {
  const int64_t queries = std::min(kQueries, end - query);
  return {query, queries, key, std::min(kKeys, g.VisibleKeys(query + queries) - key)};
}

// Returns the tile of the block at `row`. It has no keys if all are masked.
inline ScoreTile TileAt(const Geometry& g, const ScoreBlock& block, int64_t row) {
  const int64_t query = block.query + row;
  const int64_t rows = std::min(kTileRows, block.queries - row);
  return {rows, std::max<int64_t>(0, std::min(block.keys, g.VisibleKeys(query + rows) - block.key)),
          g.is_causal ? query + 1 - block.key : block.keys, g.is_causal};
}

// Returns the value of a stored element, and the element for a value, which is rounded once.
template <typename T>
T Value(T stored) {
  return stored;
}
inline float Value(BFloat16 stored) { return BFloat16ToFloat(stored.bits); }
template <typename Stored, typename T>
Stored Element(T value) {
  if constexpr (std::is_same_v<Stored, BFloat16>) return {FloatToBFloat16(value)};
  if constexpr (std::is_same_v<Stored, T>) return value;
}

// Returns whether rows of an operand are used, or written, where they are: their elements are adjacent and of T.
template <typename T, typename Stored>
bool IsDirect(const Strides& strides) {
  return std::is_same_v<T, Stored> && strides.column == 1;
}

// Rows of an operand.
template <typename T>
struct Rows {
  const T* data;
  Strides strides;

  Rows From(int64_t row) const { return {data + row * strides.row, strides}; }
};

// Returns rows [begin, begin + count): those of `from` if they are direct, otherwise copies in `copies`.
template <typename T, typename Stored>
[[gnu::always_inline]] inline Rows<T> DirectRows(const Rows<Stored>& from, int64_t begin, int64_t count,
                                                 int64_t columns, T* copies) {
  if constexpr (std::is_same_v<T, Stored>) {
    if (from.strides.column == 1) return from.From(begin);
  }
  const Stored* first = from.data + begin * from.strides.row;
  if constexpr (!std::is_same_v<T, Stored>) {
    if (from.strides.column == 1) {
      WidenRows(first, from.strides.row, count, columns, copies, columns);
      return {copies, {0, 0, columns, 1}};
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    const Stored* row = first + i * from.strides.row;
    for (int64_t e = 0; e < columns; ++e) copies[i * columns + e] = Value(row[e * from.strides.column]);
  }
  return {copies, {0, 0, columns, 1}};
}

// The operands of one head, in the forward and in the backward.
template <typename T, typename Stored>
struct ForwardHead {
  Rows<Stored> q, k, v;
  const Stored* bias;  // may be null
  Stored* result;
  T* logsumexp;  // may be null
};
template <typename T, typename Stored>
struct BackwardHead {
  Rows<Stored> grad, q, k, v, result;
  const T* logsumexp;
  const Stored* bias;  // may be null
  Stored* grad_q;
  Stored* grad_k;
  Stored* grad_v;
};

// Returns the operands of head `index` of all heads of the batch.
template <typename T, typename Stored>
ForwardHead<T, Stored> ForwardHeadOf(const KernelArgs& args, const Geometry& g, const ForwardStrides& s, bool has_bias,
                                     bool has_logsumexp, int64_t index) {
  const int64_t b = index / g.heads, h = index % g.heads;
  const auto input = [&](size_t k, const Strides& at) {
    return Rows<Stored>{static_cast<const Stored*>(args.inputs[k]) + at.Head(b, h), at};
  };
  return {input(0, s.q),
          input(1, s.k),
          input(2, s.v),
          has_bias ? input(3, s.bias).data : nullptr,
          static_cast<Stored*>(args.outputs[0]) + s.result.Head(b, h),
          has_logsumexp ? static_cast<T*>(args.outputs[1]) + s.logsumexp.Head(b, h) : nullptr};
}
template <typename T, typename Stored>
BackwardHead<T, Stored> BackwardHeadOf(const KernelArgs& args, const Geometry& g, const BackwardStrides& s,
                                       bool has_bias, int64_t index) {
  const int64_t b = index / g.heads, h = index % g.heads;
  const auto input = [&](size_t k, const Strides& at) {
    return Rows<Stored>{static_cast<const Stored*>(args.inputs[k]) + at.Head(b, h), at};
  };
  const auto output = [&](size_t k, const Strides& at) {
    return static_cast<Stored*>(args.outputs[k]) + at.Head(b, h);
  };
  return {input(0, s.grad),
          input(1, s.q),
          input(2, s.k),
          input(3, s.v),
          input(4, s.result),
          static_cast<const T*>(args.inputs[5]) + s.logsumexp.Head(b, h),
          has_bias ? input(6, s.bias).data : nullptr,
          output(0, s.grad_q),
          output(1, s.grad_k),
          output(2, s.grad_v)};
}

// Parts of the heads of a forward, for threads: blocks of queries. If there are fewer heads than threads, each head is
// split into parts, and each part packs the keys again.
struct ForwardParts {
  int64_t part_queries = 0;
  int64_t parts = 0;  // of a head

  ForwardParts(const Geometry& g, int64_t block_queries, int threads) {
    const int64_t heads = std::max<int64_t>(1, g.batch * g.heads);
    const int64_t blocks = std::max<int64_t>(1, CeilDiv(g.queries, block_queries));
    const int64_t part_blocks = CeilDiv(blocks, std::min(blocks, CeilDiv(int64_t{threads}, heads)));
    part_queries = part_blocks * block_queries;
    parts = CeilDiv(blocks, part_blocks);
  }
};

// Computes scores = a b for direct rows a, those of the block's queries, and packed columns `panels`; of each tile up
// to a multiple of a vector.
template <typename T>
[[gnu::always_inline]] inline void MultiplyScores(const Geometry& g, const ScoreBlock& block, const Rows<T>& a,
                                                  const T* panels, int64_t depth, T* scores) {
  for (int64_t row = 0; row < block.queries; row += kTileRows) {
    const ScoreTile tile = TileAt(g, block, row);
    const int64_t columns = (tile.keys + kVectorSize<T> - 1) / kVectorSize<T> * kVectorSize<T>;
    MultiplyTilePacked(a.data + row * a.strides.row, a.strides.row, 1, panels, depth, tile.rows, columns, depth,
                       scores + row * kKeys, kKeys, false);
  }
}

// Replaces scores by scale * score + bias for the keys that a query attends to.
template <typename T, typename Stored>
[[gnu::always_inline]] inline void AddBias(const Geometry& g, const ScoreBlock& block, T scale, const Stored* bias,
                                           const Strides& strides, T* scores) {
  for (int64_t i = 0; i < block.queries; ++i) {
    T* row = scores + i * kKeys;
    const Stored* from = bias + (block.query + i) * strides.row + block.key * strides.column;
    const int64_t visible = std::min(block.keys, g.VisibleKeys(block.query + i + 1) - block.key);
    for (int64_t j = 0; j < visible; ++j) row[j] = row[j] * scale + Value(from[j * strides.column]);
  }
}

// Computes to[i * step] = from[i] * factor.
template <typename T, typename Stored>
[[gnu::always_inline]] inline void StoreRow(const T* from, T factor, int64_t columns, int64_t step, Stored* to) {
  if (step != 1) {
    for (int64_t e = 0; e < columns; ++e) to[e * step] = Element<Stored>(from[e] * factor);
    return;
  }
  if constexpr (std::is_same_v<T, Stored>) {
    for (int64_t e = 0; e < columns; ++e) to[e] = from[e] * factor;
  } else {
    NarrowRow(from, factor, columns, to);
  }
}

// Packs b[k, n] = from[n * row + k].
template <typename T>
[[gnu::always_inline]] inline void PackTransposed(const T* from, int64_t row, int64_t depth, int64_t columns, T* to) {
  if constexpr (std::is_same_v<T, float>) {
    if (PackTransposedPanels(from, row, depth, columns, to)) return;
  }
  PackPanels(from, 1, row, depth, columns, to);
}

// Packs blocks of `block` rows of a [rows, columns] matrix, transposed or not. `copies` has room for a block of rows
// that are not direct.
template <typename T, typename Stored>
[[gnu::always_inline]] inline void PackBlocks(const Rows<Stored>& from, int64_t rows, int64_t columns, int64_t block,
                                              bool transposed, T* copies, T* to) {
  for (int64_t begin = 0; begin < rows; begin += block) {
    const int64_t count = std::min(block, rows - begin);
    const Rows<T> source = DirectRows(from, begin, count, columns, copies);
    if (transposed) {
      PackTransposed(source.data, source.strides.row, columns, count, to);
      to += PackedSize<T>(columns, block);
    } else {
      PackPanels(source.data, source.strides.row, 1, count, columns, to);
      to += PackedSize<T>(block, columns);
    }
  }
}

// Returns KernelType<T, Stored>, which computes in T, for operands of `dtype`.
// Unimplemented: `dtype` is neither f32, f64 nor bf16.
template <template <typename, typename> class KernelType, typename... Args>
absl::StatusOr<std::unique_ptr<Kernel>> MakeFor(DType dtype, Args&&... args) {
  if (dtype == DType::kFloat32) return std::make_unique<KernelType<float, float>>(std::forward<Args>(args)...);
  if (dtype == DType::kFloat64) return std::make_unique<KernelType<double, double>>(std::forward<Args>(args)...);
  if (dtype == DType::kBFloat16) return std::make_unique<KernelType<float, BFloat16>>(std::forward<Args>(args)...);
  return absl::UnimplementedError(
      absl::StrCat("attention: dtype ", DTypeName(dtype), " is not supported; expected f32, f64 or bf16"));
}

}  // namespace cotan::cpu::attention

#endif  // COTAN_KERNELS_CPU_ATTENTION_ATTENTION_BLOCKS_H_
