// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/attention/amx_attention.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/rounding.h"
#include "kernels/cpu/attention/bfloat16_rows.h"
#include "kernels/cpu/attention/score_tile.h"
#include "kernels/cpu/simd/amx_tiles.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/threading/parallel.h"

namespace cotan::cpu::attention {
namespace {

using amx::kBlock;
using amx::kStepElements;

// Queries of a block of scores, which has kKeys keys. Both are two steps of a product that sums over them.
constexpr int64_t kAmxQueries = 64;
constexpr int64_t kMinQueries = 16;  // with fewer, most of a block is padding
static_assert(kAmxQueries % kBlock == 0 && kKeys % kBlock == 0);

int64_t StepsOf(int64_t depths) { return CeilDiv(depths, amx::kDepth); }
int64_t PanelsOf(int64_t lines) { return CeilDiv(lines, kBlock); }
// Returns the elements of `lines` packed lines of `depths` elements.
int64_t PackedElements(int64_t lines, int64_t depths) { return PanelsOf(lines) * StepsOf(depths) * kStepElements; }

const uint16_t* BitsOf(const BFloat16* data) { return reinterpret_cast<const uint16_t*>(data); }

// Returns rows whose elements are adjacent: those of the operand from row `begin` on, or copies of `count` of them.
Rows<BFloat16> DenseRows(const Rows<BFloat16>& from, int64_t begin, int64_t count, int64_t columns, BFloat16* copies) {
  const Rows<BFloat16> rows = from.From(begin);
  if (rows.strides.column == 1) return rows;
  for (int64_t i = 0; i < count; ++i) {
    const BFloat16* const row = rows.data + i * rows.strides.row;
    for (int64_t e = 0; e < columns; ++e) copies[i * columns + e] = row[e * rows.strides.column];
  }
  return {copies, {0, 0, columns, 1}};
}

// Packs each 32 rows of [count, columns] as lines, whose terms are the columns: rows of a left matrix, or columns of a
// right one.
void PackRowsAsLines(const Rows<BFloat16>& rows, int64_t count, int64_t columns, bool are_right, uint16_t* to) {
  for (int64_t row = 0; row < count; row += kBlock, to += StepsOf(columns) * kStepElements) {
    amx::PackLines({BitsOf(rows.From(row).data), rows.strides.row, 1}, count - row, columns, are_right, to);
  }
}

// Packs each 32 columns of [count, columns] as lines, whose terms are the rows, of a right matrix.
void PackColumnsAsLines(const Rows<BFloat16>& rows, int64_t count, int64_t columns, uint16_t* to) {
  for (int64_t column = 0; column < columns; column += kBlock, to += StepsOf(count) * kStepElements) {
    amx::PackLines({BitsOf(rows.data) + column, 1, rows.strides.row}, columns - column, count, true, to);
  }
}

// Computes scores = a b for packed rows a of the block's queries and packed columns b of its keys, but not for blocks
// of 32 x 32 whose keys are all masked.
void MultiplyPackedScores(const Geometry& g, const ScoreBlock& block, const uint16_t* a, const uint16_t* b,
                          int64_t depth, float* scores) {
  const int64_t elements = StepsOf(depth) * kStepElements;
  for (int64_t row = 0; row < block.queries; row += kBlock, a += elements) {
    const int64_t rows = std::min(kBlock, block.queries - row);
    const int64_t keys = std::min(block.keys, g.VisibleKeys(block.query + row + rows) - block.key);
    for (int64_t key = 0; key < keys; key += kBlock) {
      amx::Block product = amx::BlockOfPacked(a, b + key / kBlock * elements, StepsOf(depth));
      product.sums = scores + row * kKeys + key;
      product.sums_row = kKeys;
      amx::Multiply(product, kBlock, keys - key);
    }
  }
}

// Rounds a tile of scores, which has zeros up to a multiple of 16 behind its last key, with zeros for all other keys.
void RoundTile(const ScoreTile& tile, const float* scores, uint16_t* rounded) {
  amx::RoundRows(scores, kKeys, tile.rows, RoundUp(tile.keys, amx::kLines), kKeys, rounded, kKeys);
}

// Adds a b to rows of `sums`, `width` apart, for rounded scores a of the block's queries and packed columns b, whose
// terms are its keys. The first keys, to which each query attends, set the sums.
void MultiplyByKeys(const Geometry& g, const ScoreBlock& block, const uint16_t* a, const uint16_t* b, int64_t columns,
                    float* sums, int64_t width) {
  for (int64_t row = 0; row < block.queries; row += kBlock) {
    const int64_t rows = std::min(kBlock, block.queries - row);
    const int64_t keys = std::min(block.keys, g.VisibleKeys(block.query + row + rows) - block.key);
    if (keys <= 0) continue;
    for (int64_t column = 0; column < columns; column += kBlock) {
      amx::Block product = {.a = a + row * kKeys,
                            .a_row = kKeys * 2,
                            .a_lower = amx::kLines * kKeys,
                            .a_step = amx::kDepth,
                            .b = b + column / kBlock * StepsOf(block.keys) * kStepElements,
                            .steps = StepsOf(keys),
                            .continues = block.key > 0,
                            .sums = sums + row * width + column,
                            .sums_row = width};
      amx::Multiply(product, kBlock, columns - column);
    }
  }
}

// Parts of scratch memory, each at a multiple of 64 bytes. With a null base it only computes the size.
class Scratch {
 public:
  explicit Scratch(void* base) : base_(static_cast<char*>(base)) {}

  template <typename T>
  T* Take(int64_t count) {
    char* const at = base_ == nullptr ? nullptr : base_ + bytes_;
    bytes_ += RoundUp(count * static_cast<int64_t>(sizeof(T)), 64);
    return reinterpret_cast<T*>(at);
  }
  int64_t bytes() const { return bytes_; }

 private:
  char* base_;
  int64_t bytes_ = 0;
};

struct ForwardMemory {
  uint16_t* keys;     // packed: [panels of 32 keys, steps of elements]
  uint16_t* values;   // packed: [blocks of kKeys keys, panels of 32 elements, steps of keys]
  uint16_t* queries;  // packed: [panels of 32 queries, steps of elements]
  float* scores;      // [kAmxQueries, kKeys]
  uint16_t* rounded;  // as well
  float* sums;        // [kAmxQueries, width]
  float* max;         // [kAmxQueries]
  float* total;       // as well
  BFloat16* copies;   // rows of a block whose elements are not adjacent
  int64_t width;
  int64_t bytes;

  ForwardMemory(const Geometry& g, void* base) {
    Scratch scratch(base);
    const int64_t blocks = CeilDiv(g.keys, kKeys);
    width = RoundUp(g.value_size, kBlock);
    keys = scratch.Take<uint16_t>(PackedElements(g.keys, g.size));
    values = scratch.Take<uint16_t>(blocks * PackedElements(g.value_size, kKeys));
    queries = scratch.Take<uint16_t>(PackedElements(kAmxQueries, g.size));
    scores = scratch.Take<float>(kAmxQueries * kKeys);
    rounded = scratch.Take<uint16_t>(kAmxQueries * kKeys);
    sums = scratch.Take<float>(kAmxQueries * width);
    max = scratch.Take<float>(kAmxQueries);
    total = scratch.Take<float>(kAmxQueries);
    copies = scratch.Take<BFloat16>(kKeys * std::max(g.size, g.value_size));
    bytes = scratch.bytes();
  }
};

using Forward = ForwardHead<float, BFloat16>;
using Backward = BackwardHead<float, BFloat16>;

void PackKeysAndValues(const Geometry& g, const Forward& head, int64_t visible, const ForwardMemory& m) {
  for (int64_t key = 0; key < visible; key += kKeys) {
    const int64_t count = std::min(kKeys, visible - key);
    const Rows<BFloat16> k = DenseRows(head.k, key, count, g.size, m.copies);
    PackRowsAsLines(k, count, g.size, true, m.keys + PackedElements(key, g.size));
    const Rows<BFloat16> v = DenseRows(head.v, key, count, g.value_size, m.copies);
    PackColumnsAsLines(v, count, g.value_size, m.values + key / kKeys * PackedElements(g.value_size, kKeys));
  }
}

// Multiplies the sums of the rows of a tile, `width` apart, by `corrections`.
COTAN_SIMD_VERSIONS void CorrectSums(const ScoreTile& tile, const float* corrections, int64_t columns, float* sums,
                                     int64_t width) {
  for (int64_t i = 0; i < tile.rows; ++i, sums += width) {
    if (corrections[i] == 1) continue;
    for (int64_t e = 0; e < columns; ++e) sums[e] *= corrections[i];
  }
}

// Computes queries [query, query + queries) of one head with the online softmax, as AttendBlock() does. Keys up to
// `packed` are packed.
void AttendQueries(const Geometry& g, const ForwardStrides& s, const Forward& head, int64_t query, int64_t queries,
                   int64_t packed, const ForwardMemory& m) {
  const auto scale = static_cast<float>(g.scale);
  PackRowsAsLines(DenseRows(head.q, query, queries, g.size, m.copies), queries, g.size, false, m.queries);
  std::fill_n(m.max, queries, -std::numeric_limits<float>::infinity());
  std::fill_n(m.total, queries, 0.0F);
  const int64_t visible = g.VisibleKeys(query + queries);
  for (int64_t key = 0; key < visible; key += kKeys) {
    const ScoreBlock block = {query, queries, key, std::min(kKeys, visible - key)};
    MultiplyPackedScores(g, block, m.queries, m.keys + PackedElements(key, g.size), g.size, m.scores);
    if (head.bias != nullptr) AddBias(g, block, scale, head.bias, s.bias, m.scores);
    for (int64_t row = 0; row < queries; row += kTileRows) {
      const ScoreTile tile = TileAt(g, block, row);
      float corrections[kTileRows];
      if (tile.keys > 0) {
        SoftmaxOfTile(tile, head.bias != nullptr ? 1.0F : scale, m.scores + row * kKeys, m.max + row, m.total + row,
                      corrections);
        if (key > 0) CorrectSums(tile, corrections, g.value_size, m.sums + row * m.width, m.width);
      }
      RoundTile(tile, m.scores + row * kKeys, m.rounded + row * kKeys);
    }
    // The values of a block are packed for all of its keys.
    const ScoreBlock stored = {query, queries, key, std::min(kKeys, packed - key)};
    MultiplyByKeys(g, stored, m.rounded, m.values + key / kKeys * PackedElements(g.value_size, kKeys), g.value_size,
                   m.sums, m.width);
  }
  for (int64_t i = 0; i < queries; ++i) {
    const float factor = m.total[i] == 0 ? 0.0F : 1 / m.total[i];
    StoreRow(m.sums + i * m.width, factor, g.value_size, s.result.column, head.result + (query + i) * s.result.row);
    if (head.logsumexp != nullptr) head.logsumexp[(query + i) * s.logsumexp.row] = m.max[i] + std::log(m.total[i]);
  }
}

class AmxAttention final : public Kernel {
 public:
  AmxAttention(const Geometry& geometry, const ForwardStrides& strides, bool has_bias, bool has_logsumexp, int threads)
      : geometry_(geometry),
        strides_(strides),
        has_bias_(has_bias),
        has_logsumexp_(has_logsumexp),
        threads_(threads),
        parts_(geometry, kAmxQueries, threads),
        worker_bytes_(ForwardMemory(geometry, nullptr).bytes) {
    scratch_bytes_ = static_cast<size_t>(worker_bytes_ * threads);
  }

  absl::Status Run(const KernelArgs& args) override {
    const int64_t units = geometry_.batch * geometry_.heads * parts_.parts;
    ParallelForWorker(threads_, units, 1, [&](int worker, int64_t begin, int64_t end) {
      amx::Registers registers;
      registers.Use(config_);
      const ForwardMemory memory(geometry_, static_cast<char*>(args.scratch) + worker * worker_bytes_);
      for (int64_t i = begin; i < end; ++i) RunPart(args, i / parts_.parts, i % parts_.parts, memory);
    });
    return absl::OkStatus();
  }

 private:
  void RunPart(const KernelArgs& args, int64_t index, int64_t part, const ForwardMemory& memory) const {
    const Forward head = ForwardHeadOf<float, BFloat16>(args, geometry_, strides_, has_bias_, has_logsumexp_, index);
    const int64_t begin = part * parts_.part_queries;
    const int64_t end = std::min(geometry_.queries, begin + parts_.part_queries);
    const int64_t visible = geometry_.VisibleKeys(end);
    PackKeysAndValues(geometry_, head, visible, memory);
    for (int64_t query = begin; query < end; query += kAmxQueries) {
      AttendQueries(geometry_, strides_, head, query, std::min(kAmxQueries, end - query), visible, memory);
    }
  }

  const Geometry geometry_;
  const ForwardStrides strides_;
  const bool has_bias_;
  const bool has_logsumexp_;
  const int threads_;
  const ForwardParts parts_;
  const int64_t worker_bytes_;
  const amx::Config config_ = amx::ConfigOf(kBlock);
};

struct BackwardMemory {
  // Packed, of all keys. With elements as terms: [panels of 32 keys, steps of elements].
  uint16_t* keys;
  uint16_t* values;
  uint16_t* keys_by_key;  // with keys as terms: [blocks of kKeys keys, panels of 32 elements, steps of keys]
  // Packed, of a block of queries, with elements and with queries as terms.
  uint16_t* queries;
  uint16_t* grads;
  uint16_t* queries_by_query;  // [panels of 32 elements, steps of queries]
  uint16_t* grads_by_query;
  // Of a block of scores: [kAmxQueries, kKeys]. Probabilities and their gradients.
  float* scores;
  float* slopes;
  uint16_t* rounded_scores;
  uint16_t* rounded_slopes;
  uint16_t* transposed;  // packed: 32 keys, with queries as terms
  float* dots;           // sum over e of grad * result, per query of a block
  float* rows;           // f32 copies of rows of `grad` and of `result`
  float* grad_q;         // [kAmxQueries, width]
  float* grad_k;         // [keys, width]
  float* grad_v;         // [keys, value_width]
  BFloat16* copies;      // rows of a block whose elements are not adjacent
  int64_t width;
  int64_t value_width;
  int64_t bytes;

  BackwardMemory(const Geometry& g, void* base) {
    Scratch scratch(base);
    const int64_t blocks = CeilDiv(g.keys, kKeys);
    width = RoundUp(g.size, kBlock);
    value_width = RoundUp(g.value_size, kBlock);
    keys = scratch.Take<uint16_t>(PackedElements(g.keys, g.size));
    values = scratch.Take<uint16_t>(PackedElements(g.keys, g.value_size));
    keys_by_key = scratch.Take<uint16_t>(blocks * PackedElements(g.size, kKeys));
    queries = scratch.Take<uint16_t>(PackedElements(kAmxQueries, g.size));
    grads = scratch.Take<uint16_t>(PackedElements(kAmxQueries, g.value_size));
    queries_by_query = scratch.Take<uint16_t>(PackedElements(g.size, kAmxQueries));
    grads_by_query = scratch.Take<uint16_t>(PackedElements(g.value_size, kAmxQueries));
    scores = scratch.Take<float>(kAmxQueries * kKeys);
    slopes = scratch.Take<float>(kAmxQueries * kKeys);
    rounded_scores = scratch.Take<uint16_t>(kAmxQueries * kKeys);
    rounded_slopes = scratch.Take<uint16_t>(kAmxQueries * kKeys);
    transposed = scratch.Take<uint16_t>(PackedElements(kBlock, kAmxQueries));
    dots = scratch.Take<float>(kAmxQueries);
    rows = scratch.Take<float>(2 * kAmxQueries * g.value_size);
    grad_q = scratch.Take<float>(kAmxQueries * width);
    grad_k = scratch.Take<float>(RoundUp(g.keys, kBlock) * width);
    grad_v = scratch.Take<float>(RoundUp(g.keys, kBlock) * value_width);
    copies = scratch.Take<BFloat16>(std::max(kKeys, kAmxQueries) * std::max(g.size, g.value_size));
    bytes = scratch.bytes();
  }
};

void PackKeys(const Geometry& g, const Backward& head, const BackwardMemory& m) {
  for (int64_t key = 0; key < g.keys; key += kKeys) {
    const int64_t count = std::min(kKeys, g.keys - key);
    const Rows<BFloat16> k = DenseRows(head.k, key, count, g.size, m.copies);
    PackRowsAsLines(k, count, g.size, true, m.keys + PackedElements(key, g.size));
    PackColumnsAsLines(k, count, g.size, m.keys_by_key + key / kKeys * PackedElements(g.size, kKeys));
    const Rows<BFloat16> v = DenseRows(head.v, key, count, g.value_size, m.copies);
    PackRowsAsLines(v, count, g.value_size, true, m.values + PackedElements(key, g.value_size));
  }
}

void PackQueries(const Geometry& g, const Backward& head, int64_t query, int64_t count, const BackwardMemory& m) {
  const Rows<BFloat16> q = DenseRows(head.q, query, count, g.size, m.copies);
  PackRowsAsLines(q, count, g.size, false, m.queries);
  PackColumnsAsLines(q, count, g.size, m.queries_by_query);
  const Rows<BFloat16> grad = DenseRows(head.grad, query, count, g.value_size, m.copies);
  PackRowsAsLines(grad, count, g.value_size, false, m.grads);
  PackColumnsAsLines(grad, count, g.value_size, m.grads_by_query);
  WidenRows(grad.data, grad.strides.row, count, g.value_size, m.rows, g.value_size);
  float* const results = m.rows + kAmxQueries * g.value_size;
  const Rows<BFloat16> result = DenseRows(head.result, query, count, g.value_size, m.copies);
  WidenRows(result.data, result.strides.row, count, g.value_size, results, g.value_size);
  DotProductsOfRows(m.rows, g.value_size, results, g.value_size, count, g.value_size, m.dots);
}

// Adds a^T b to rows of `sums`, `width` apart, of the block's keys, for rounded scores a and packed columns b, whose
// terms are the block's queries. `transposed` is scratch memory.
void MultiplyByQueries(const Geometry& g, const ScoreBlock& block, const uint16_t* a, const uint16_t* b,
                       int64_t columns, uint16_t* transposed, float* sums, int64_t width) {
  for (int64_t key = 0; key < block.keys; key += kBlock) {
    // Queries before the first of these keys do not attend to any.
    const int64_t hidden = g.is_causal ? std::max<int64_t>(0, block.key + key - block.query) : 0;
    const int64_t first = hidden / amx::kDepth;
    amx::PackLines({a + first * amx::kDepth * kKeys + key, 1, kKeys}, kBlock, block.queries - first * amx::kDepth,
                   /*pairs_are_rows=*/false, transposed);
    for (int64_t column = 0; column < columns; column += kBlock) {
      const int64_t steps = StepsOf(block.queries);
      const uint16_t* const packed = b + (column / kBlock * steps + first) * kStepElements;
      amx::Block product = amx::BlockOfPacked(transposed, packed, steps - first);
      product.continues = true;
      product.sums = sums + key * width + column;
      product.sums_row = width;
      amx::Multiply(product, kBlock, columns - column);
    }
  }
}

// Computes the probabilities of a block from the saved logsumexp, and the gradients of its scores, both rounded.
void ComputeRoundedSlopes(const Geometry& g, const BackwardStrides& s, const Backward& head, const ScoreBlock& block,
                          const BackwardMemory& m) {
  const auto scale = static_cast<float>(g.scale);
  MultiplyPackedScores(g, block, m.queries, m.keys + PackedElements(block.key, g.size), g.size, m.scores);
  MultiplyPackedScores(g, block, m.grads, m.values + PackedElements(block.key, g.value_size), g.value_size, m.slopes);
  if (head.bias != nullptr) AddBias(g, block, scale, head.bias, s.bias, m.scores);
  for (int64_t row = 0; row < block.queries; row += kTileRows) {
    const ScoreTile tile = TileAt(g, block, row);
    const int64_t at = row * kKeys;
    if (tile.keys > 0) {
      SoftmaxGradientOfTile(tile, head.bias != nullptr ? 1.0F : scale, scale,
                            head.logsumexp + (block.query + row) * s.logsumexp.row, s.logsumexp.row, m.dots + row,
                            m.scores + at, m.slopes + at);
    }
    RoundTile(tile, m.scores + at, m.rounded_scores + at);
    RoundTile(tile, m.slopes + at, m.rounded_slopes + at);
  }
}

void StoreGradients(const float* sums, int64_t width, int64_t rows, int64_t size, const Strides& strides,
                    BFloat16* output) {
  for (int64_t i = 0; i < rows; ++i) {
    StoreRow(sums + i * width, 1.0F, size, strides.column, output + i * strides.row);
  }
}

void DifferentiateHead(const Geometry& g, const BackwardStrides& s, const Backward& head, const BackwardMemory& m) {
  PackKeys(g, head, m);
  std::fill_n(m.grad_k, RoundUp(g.keys, kBlock) * m.width, 0.0F);
  std::fill_n(m.grad_v, RoundUp(g.keys, kBlock) * m.value_width, 0.0F);
  for (int64_t query = 0; query < g.queries; query += kAmxQueries) {
    const int64_t queries = std::min(kAmxQueries, g.queries - query);
    PackQueries(g, head, query, queries, m);
    const int64_t visible = g.VisibleKeys(query + queries);
    for (int64_t key = 0; key < visible; key += kKeys) {
      const ScoreBlock block = {query, queries, key, std::min(kKeys, visible - key)};
      ComputeRoundedSlopes(g, s, head, block, m);
      const ScoreBlock stored = {query, queries, key, std::min(kKeys, g.keys - key)};
      MultiplyByKeys(g, stored, m.rounded_slopes, m.keys_by_key + key / kKeys * PackedElements(g.size, kKeys), g.size,
                     m.grad_q, m.width);
      MultiplyByQueries(g, block, m.rounded_scores, m.grads_by_query, g.value_size, m.transposed,
                        m.grad_v + key * m.value_width, m.value_width);
      MultiplyByQueries(g, block, m.rounded_slopes, m.queries_by_query, g.size, m.transposed, m.grad_k + key * m.width,
                        m.width);
    }
    StoreGradients(m.grad_q, m.width, queries, g.size, s.grad_q, head.grad_q + query * s.grad_q.row);
  }
  StoreGradients(m.grad_k, m.width, g.keys, g.size, s.grad_k, head.grad_k);
  StoreGradients(m.grad_v, m.value_width, g.keys, g.value_size, s.grad_v, head.grad_v);
}

class AmxAttentionBackward final : public Kernel {
 public:
  AmxAttentionBackward(const Geometry& geometry, const BackwardStrides& strides, bool has_bias, int threads)
      : geometry_(geometry),
        strides_(strides),
        has_bias_(has_bias),
        threads_(threads),
        worker_bytes_(BackwardMemory(geometry, nullptr).bytes) {
    scratch_bytes_ = static_cast<size_t>(worker_bytes_ * threads);
  }

  absl::Status Run(const KernelArgs& args) override {
    ParallelForWorker(threads_, geometry_.batch * geometry_.heads, 1, [&](int worker, int64_t begin, int64_t end) {
      amx::Registers registers;
      registers.Use(config_);
      const BackwardMemory memory(geometry_, static_cast<char*>(args.scratch) + worker * worker_bytes_);
      for (int64_t i = begin; i < end; ++i) {
        const Backward head = BackwardHeadOf<float, BFloat16>(args, geometry_, strides_, has_bias_, i);
        DifferentiateHead(geometry_, strides_, head, memory);
      }
    });
    return absl::OkStatus();
  }

 private:
  const Geometry geometry_;
  const BackwardStrides strides_;
  const bool has_bias_;
  const int threads_;
  const int64_t worker_bytes_;
  const amx::Config config_ = amx::ConfigOf(kBlock);
};

bool IsForAmx(const Geometry& g) {
  return g.queries >= kMinQueries && g.keys > 0 && g.size > 0 && g.value_size > 0 && amx::IsAvailable();
}

}  // namespace

std::unique_ptr<Kernel> MakeAmxAttention(const Geometry& geometry, const ForwardStrides& strides, bool has_bias,
                                         bool has_logsumexp, int threads) {
  if (!IsForAmx(geometry)) return nullptr;
  return std::make_unique<AmxAttention>(geometry, strides, has_bias, has_logsumexp, threads);
}

std::unique_ptr<Kernel> MakeAmxAttentionBackward(const Geometry& geometry, const BackwardStrides& strides,
                                                 bool has_bias, int threads) {
  if (!IsForAmx(geometry)) return nullptr;
  return std::make_unique<AmxAttentionBackward>(geometry, strides, has_bias, threads);
}

}  // namespace cotan::cpu::attention
